#!/usr/bin/env bash
# A batch job: convert, cluster with a time limit, fail with the exit code of whatever failed.
#   examples/batch.sh DATA.csv K OUT [SECONDS]
# Writes OUT.zarr (the data of this run, never of an earlier one) and OUT; what earlier runs wrote there is replaced, each in
# one step. Prints what the store holds, then one JSON object about the result. Exit codes: 0 done; 2 bad input; 4 disk or
# store; 5 out of time before anything was found; 130 interrupted (SIGTERM from a scheduler counts).
set -euo pipefail
data=$1 k=$2 out=${3%/} seconds=${4:-3600}
dmmc=${DMMC:-dmmc}
store=$out.zarr

$dmmc convert "$data" "$store" --overwrite --quiet
$dmmc info "$store"
$dmmc fit "$store" -k "$k" -o "$out" --overwrite --max-seconds "$seconds" --json --quiet
