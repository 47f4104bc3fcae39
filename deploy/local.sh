#!/usr/bin/env bash
# A fit on a real cluster on this machine: a scheduler and worker processes that talk TLS, each with its certificate.
#   deploy/local.sh [SOURCE [K [OUT]]] [-- OPTIONS OF dmmc fit]
# Without SOURCE it clusters scikit-learn's digits. K is 10 and OUT is ./dmmc-local if left out.
# From the environment: WORKERS (2), THREADS of each (1), MEMORY_LIMIT of each (2GiB), PYTHON (the checkout's .venv, else
# python3), TLS (a folder that tls.sh has filled; else new certificates that go away with the cluster), LOGS (a folder;
# else shown if the fit fails).
# Ends with the exit code of dmmc fit; nothing is left running, also after Ctrl-C.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0"
  exit 0
fi
given=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  given+=("$1")
  shift
done
[ $# -eq 0 ] || shift
if [ ${#given[@]} -gt 3 ]; then
  echo "local.sh: SOURCE, K and OUT are wanted; ${#given[@]} arguments were given (options of dmmc fit come after --)." >&2
  exit 2
fi
source=${given[0]:-} k=${given[1]:-10} out=${given[2]:-dmmc-local}
options=("$@")

python=${PYTHON:-}
if [ -z "$python" ]; then
  python=$here/../.venv/bin/python
  [ -x "$python" ] || python=python3
fi

work='' logs=${LOGS:-} groups=() fit='' stopped=''

clean() {
  local code=$? group
  trap '' INT TERM HUP # what is cleaned up here is cleaned up whole
  [ -z "$fit" ] || kill -TERM "$fit" 2>/dev/null || true
  for group in "${groups[@]}"; do kill -TERM -- "-$group" 2>/dev/null || true; done
  for ((i = 0; i < 50; i++)); do
    alive || break
    sleep 0.1
  done
  for group in "${groups[@]}"; do kill -KILL -- "-$group" 2>/dev/null || true; done
  wait 2>/dev/null || true
  if [ "$code" -ne 0 ] && [ -z "$stopped" ] && [ "$logs" = "$work" ] && [ -n "$work" ]; then
    tail -n 5 "$work"/*.log >&2 2>/dev/null || true
  fi
  [ -z "$work" ] || rm -rf "$work"
  exit "$code"
}
alive() {
  local group
  for group in "${groups[@]}"; do
    if kill -0 -- "-$group" 2>/dev/null; then return 0; fi
  done
  return 1
}
stop() { # the fit alone is told: with its cluster still there it can write a checkpoint
  stopped=yes again=yes
  [ -n "$fit" ] || exit 130
  kill -TERM "$fit" 2>/dev/null || true
}
start() { # NAME COMMAND...: in a session of its own, which Ctrl-C does not reach and which can be ended as a whole
  local name=$1
  shift
  setsid "$@" >"$logs/$name.log" 2>&1 </dev/null &
  groups+=("$!")
}
trap clean EXIT
trap stop INT TERM HUP

work=$(mktemp -d "${TMPDIR:-/tmp}/dmmc-local.XXXXXX")
logs=${LOGS:-$work}
export DASK_TEMPORARY_DIRECTORY=$work # what Dask puts aside goes away too
# Dask's profiler of workers takes up to a fifth of a pass
export DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=${DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED:-False}
export DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL=${DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL:-500ms}
if [ -z "$source" ]; then
  source=$work/digits.zarr
  options+=(--overwrite) # the example's own result
  "$python" - "$work/digits.npy" <<'END'
import sys
import numpy as np
from sklearn.datasets import load_digits
np.save(sys.argv[1], load_digits().data.astype(np.float32))
END
  "$python" -m dmmc convert "$work/digits.npy" "$source" --quiet
fi
tls=${TLS:-}
if [ -z "$tls" ]; then
  tls=$work/tls
  "$here/tls.sh" -d 2 "$tls" >/dev/null
fi
mkdir -p "$logs"
certificate() { printf '%s\n' --tls-ca-file "$tls/ca.pem" --tls-cert "$tls/$1.pem" --tls-key "$tls/$1-key.pem"; }
mapfile -t for_scheduler < <(certificate scheduler)
mapfile -t for_worker < <(certificate worker)

# Port 0 is any free one; the file says which. The idle timeout ends a cluster whose owner was killed (kill -9).
file=$work/scheduler.json
start scheduler "$python" -m dask scheduler --host 127.0.0.1 --port 0 --protocol tls "${for_scheduler[@]}" \
  --no-dashboard --dashboard-address 127.0.0.1:0 --scheduler-file "$file" --idle-timeout 3600
for ((i = 0; i < ${WORKERS:-2}; i++)); do
  start "worker-$i" "$python" -m dask worker --scheduler-file "$file" --host 127.0.0.1 --protocol tls "${for_worker[@]}" \
    --name "worker-$i" --nanny --nworkers 1 --nthreads "${THREADS:-1}" --memory-limit "${MEMORY_LIMIT:-2GiB}" \
    --no-dashboard --dashboard-address 127.0.0.1:0 --death-timeout 60
done
for ((i = 0; i < 300; i++)); do
  [ ! -s "$file" ] || break
  kill -0 "${groups[0]}" 2>/dev/null || break
  sleep 0.1
done
if [ ! -s "$file" ]; then
  echo "local.sh: the scheduler did not start." >&2
  exit 3
fi

"$python" -m dmmc fit "$source" -k "$k" -o "$out" --scheduler "$file" \
  --tls-ca "$tls/ca.pem" --tls-cert "$tls/client.pem" --tls-key "$tls/client-key.pem" "${options[@]}" &
fit=$!
code=0 again=yes
while [ -n "$again" ]; do # a signal ends a wait early; the fit's own end is what counts
  again=''
  wait "$fit" && status=0 || status=$?
  [ "$status" -eq 127 ] || code=$status
done
fit=''
exit "$code"
