#!/bin/sh
# Adds the users of the programs to a root file system: deploy/image-users.sh ROOT. Their ids are those of setup.sh.
set -eu
root=${1%/}
for line in signer:10001 api:10002 auth:10003 owner:10004 chain:10005; do
  name=chatelaine-${line%:*} id=${line#*:}
  grep -q "^$name:" "$root/etc/passwd" && continue
  echo "$name:x:$id:$id::/tmp:/usr/sbin/nologin" >>"$root/etc/passwd"
  echo "$name:x:$id:" >>"$root/etc/group"
done
