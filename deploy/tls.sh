#!/usr/bin/env bash
# Make a certificate authority and a certificate with key for each of scheduler, worker and client.
#   deploy/tls.sh [-d DAYS] [-n HOST_OR_IP]... [FOLDER]
# FOLDER is ./tls if left out, DAYS is 30; localhost and 127.0.0.1 are always among the names. Nothing is overwritten.
# For tests and small private clusters. This is not a PKI: no revocation, no renewal, and the authority's key is a file.
set -euo pipefail

usage() { sed -n '2,5s/^# \{0,1\}//p' "$0"; }
fail() {
  echo "tls.sh: $1" >&2
  exit 2
}

days=30
names=DNS:localhost,IP:127.0.0.1
while getopts d:n:h option; do
  case $option in
    d) days=$OPTARG ;;
    n)
      [[ $OPTARG =~ ^[A-Za-z0-9.:*_-]+$ ]] || fail "-n '$OPTARG': a host name or an IP address is wanted."
      if [[ $OPTARG =~ ^[0-9]+(\.[0-9]+){3}$ || $OPTARG == *:* ]]; then names+=,IP:$OPTARG; else names+=,DNS:$OPTARG; fi
      ;;
    h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -le 1 ] || fail "one folder is wanted; $# were given."
[[ $days =~ ^[1-9][0-9]{0,3}$ ]] || fail "-d '$days': a number of days is wanted, such as 30."
folder=${1:-tls}
command -v openssl >/dev/null || fail "openssl is not installed."

roles=(scheduler worker client)
for role in ca "${roles[@]}"; do
  for file in "$folder/$role.pem" "$folder/$role-key.pem"; do
    if [ -e "$file" ] || [ -L "$file" ]; then fail "$file exists; remove it, or choose another folder."; fi
  done
done

umask 077 # keys are for their owner only, from the first byte on
mkdir -p "$folder"
new=$(mktemp -d "$folder/.new.XXXXXX") # all of it, or nothing
trap 'rm -rf "$new"' EXIT

quietly() { # openssl talks on stderr also when all is well
  "$@" 2>"$new/said" || { cat "$new/said" >&2 && fail "openssl failed."; }
}
key() { quietly openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$new/$1-key.pem"; }

printf '%s\n' '[req]' 'distinguished_name=name' '[name]' '[v3]' >"$new/settings"
cat >>"$new/settings" <<'END'
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
END
key ca
quietly openssl req -new -x509 -sha256 -config "$new/settings" -extensions v3 -days "$days" \
  -subj "/CN=dmmc test authority" -key "$new/ca-key.pem" -out "$new/ca.pem"

for role in "${roles[@]}"; do
  # Scheduler and workers both listen and connect; a client's certificate cannot pass for either of them.
  usage=serverAuth,clientAuth
  [ "$role" != client ] || usage=clientAuth
  key "$role"
  quietly openssl req -new -sha256 -config "$new/settings" -subj "/CN=dmmc $role" -key "$new/$role-key.pem" -out "$new/request"
  cat >"$new/extensions" <<END
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = $usage
subjectAltName = $names
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
END
  quietly openssl x509 -req -sha256 -days "$days" -in "$new/request" -extfile "$new/extensions" \
    -CA "$new/ca.pem" -CAkey "$new/ca-key.pem" -set_serial "0x$(openssl rand -hex 16)" -out "$new/$role.pem"
  quietly openssl verify -CAfile "$new/ca.pem" "$new/$role.pem" >/dev/null
done

chmod 644 "$new"/{ca,scheduler,worker,client}.pem
chmod 600 "$new"/{ca,scheduler,worker,client}-key.pem
for role in ca "${roles[@]}"; do mv "$new/$role.pem" "$new/$role-key.pem" "$folder/"; done

echo "In $folder, valid for $days days, for ${names//,/, }:"
echo "  ca.pem, ca-key.pem                 the authority; its key signs new certificates: keep it off the cluster"
echo "  scheduler.pem, scheduler-key.pem   dask scheduler --tls-ca-file ca.pem --tls-cert ... --tls-key ..."
echo "  worker.pem, worker-key.pem         dask worker    --tls-ca-file ca.pem --tls-cert ... --tls-key ..."
echo "  client.pem, client-key.pem         dmmc fit       --tls-ca ca.pem --tls-cert ... --tls-key ..."
echo "For tests and small private clusters; not a PKI."
