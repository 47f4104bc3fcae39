#!/usr/bin/env bash
# Print the three secrets that cluster.yaml and job.yaml mount, each with the certificate of one role and nothing more.
#   deploy/kubernetes/tls-secret.sh [FOLDER] | kubectl apply -f -
# FOLDER is one that tls.sh has filled; without it new certificates are made, and their authority is forgotten.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  "$here/../tls.sh" -d "${DAYS:-90}" -n dmmc-scheduler "$folder" >/dev/null
fi
for role in scheduler worker client; do
  for file in ca.pem "$role.pem" "$role-key.pem"; do
    [ -r "$folder/$file" ] || { echo "tls-secret.sh: there is no $folder/$file; deploy/tls.sh makes it." >&2 && exit 2; }
  done
done
for role in scheduler worker client; do
  cat <<END
---
apiVersion: v1
kind: Secret
metadata:
  name: dmmc-tls-$role
  labels: {app.kubernetes.io/name: dmmc}
type: kubernetes.io/tls
data:
  ca.crt: $(base64 -w0 "$folder/ca.pem")
  tls.crt: $(base64 -w0 "$folder/$role.pem")
  tls.key: $(base64 -w0 "$folder/$role-key.pem")
END
done
