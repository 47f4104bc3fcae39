#!/usr/bin/env bash
# A batch job: cluster a file with a time limit, fail with the exit code of whatever failed.
#   examples/batch.sh DATA K OUT [SECONDS]
# DATA is whatever `dmmc fit` takes: csv, parquet, a folder of it ... It is read anew each time (what was converted of a large
# file is used again only while its size, time and checksum are the same), so never the rows of an earlier day. What an
# earlier run wrote to OUT is replaced, in one step. Prints what the file holds, then one JSON object about the result. Exit
# codes: 0 done; 2 bad input; 4 disk or store; 5 out of time before anything was found; 130 interrupted (SIGTERM from a
# scheduler counts).
set -euo pipefail
data=$1 k=$2 out=${3%/} seconds=${4:-3600}
dmmc=${DMMC:-dmmc}

$dmmc info "$data"
$dmmc fit "$data" -k "$k" -o "$out" --overwrite --max-seconds "$seconds" --json --quiet
