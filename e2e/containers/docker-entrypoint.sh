#!/bin/bash
# Stands in for the entry script of the image `postgres`: owners, an empty cluster with its role and database, the scripts of
# /docker-entrypoint-initdb.d, then the server as the user postgres.
set -euo pipefail
data=$PGDATA
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$data" /var/run/postgresql
  chmod 700 "$data"
  chmod 3777 /var/run/postgresql
  find "$data" ! -user postgres -exec chown postgres '{}' +
  find /var/run/postgresql ! -user postgres -exec chown postgres '{}' +
  exec setpriv --reuid postgres --regid postgres --init-groups "$0" "$@"
fi
if [ ! -s "$data/PG_VERSION" ]; then
  initdb -D "$data" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --locale=C.UTF-8 --encoding=UTF8
  printf 'host all all all scram-sha-256\n' >>"$data/pg_hba.conf"
  pg_ctl -D "$data" -w -o "-c listen_addresses=''" start
  createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
  for file in /docker-entrypoint-initdb.d/*.sql; do
    psql -v ON_ERROR_STOP=1 --no-password --no-psqlrc --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" -f "$file"
  done
  pg_ctl -D "$data" -m fast -w stop
fi
exec "$@" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql
