#!/bin/sh
# The first start of the containers, and nothing at a later one: owners and modes of the volumes, database passwords,
# the master key, token keys, and the signer's trust in them. It runs as root, without a network, in its own container.
# docs/operate/containers.md lists the volumes.
set -eu
umask 022
signer=10001 api=10002 auth=10003 owner=10004
# Node.js needs a folder that it may write to.
export HOME=/tmp

own() { # FOLDER USER GROUP MODE
  chown "$2:$3" "$1"
  chmod "$4" "$1"
}
own /etc/chatelaine-signer $signer $signer 0700
own /var/lib/chatelaine-signer $signer $signer 0700
own /etc/chatelaine-auth $auth $auth 0700
own /var/lib/chatelaine-auth $auth $auth 0755
own /etc/chatelaine-api $api $api 0700
own /etc/chatelaine-owner $owner $owner 0700
own /etc/chatelaine-database 0 0 0755
# The 2 gives sockets the group of their folder.
own /run/chatelaine-signer $signer $api 2750
own /run/chatelaine-signer-auth $signer $auth 2750
own /run/chatelaine-auth $auth $api 2750
# The volume of the development chain. Without it, the folder is part of the read-only image.
if mountpoint -q /chain; then own /chain 10005 10005 0700; fi

as() { # USER COMMAND…
  user=$1
  shift
  setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs "$@"
}
secret() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

if [ ! -e /etc/chatelaine-database/roles.sql ]; then
  owner_password=$(secret) auth_password=$(secret) api_password=$(secret)
  keep() { # FOLDER USER ROLE PASSWORD
    (umask 077 && printf '*:*:*:%s:%s\n' "$3" "$4" >"$1/pgpass")
    chown "$2:$2" "$1/pgpass"
  }
  keep /etc/chatelaine-owner $owner chatelaine "$owner_password"
  keep /etc/chatelaine-auth $auth chatelaine_auth "$auth_password"
  keep /etc/chatelaine-api $api chatelaine_api "$api_password"
  # Only the database container mounts this folder, and its user differs from image to image.
  printf '%s' "$owner_password" >/etc/chatelaine-database/password
  printf "create role chatelaine_auth login password '%s';\ncreate role chatelaine_api login password '%s';\n" \
    "$auth_password" "$api_password" >/etc/chatelaine-database/roles.sql.part
  mv /etc/chatelaine-database/roles.sql.part /etc/chatelaine-database/roles.sql
fi

if [ ! -e /etc/chatelaine-auth/providers.json ]; then
  (umask 077 && cat /setup/providers.json >/etc/chatelaine-auth/providers.json)
  chown $auth:$auth /etc/chatelaine-auth/providers.json
fi
[ -e "$AUTH_KEYS_FILE" ] || as $auth chatelaine auth-keys create
if [ ! -e "$SIGNER_KEK_FILE" ]; then
  as $signer chatelaine signer create-key
  echo 'Copy the volume signer-key to a place where no backup is.'
fi
# Only the first keys are accepted here, later ones by hand: docs/operate/key-rotation.md.
if [ ! -e /etc/chatelaine-signer/trusted ]; then
  as $signer chatelaine signer trust-key --accept "$(as $auth chatelaine auth-keys fingerprints)"
  as $signer touch /etc/chatelaine-signer/trusted
fi
echo 'The volumes are ready.'
