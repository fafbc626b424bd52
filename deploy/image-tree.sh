#!/bin/sh
# Makes the file tree of the image: deploy/image-tree.sh SOURCE TARGET. The Containerfile runs it, and so do the tests.
# PKCS11=on compiles the module for HSMs; it needs g++, make and python3.
set -eu
source=$(cd "$1" && pwd)
mkdir -p "$2/opt/chatelaine" "$2/usr/local/bin"
target=$(cd "$2" && pwd)
program=$target/opt/chatelaine

cd "$source"
# Only what production reads: no tests, no tools, no documents.
find src -type f ! -name '*.test.ts' -print | tar -cf - -T - | tar -xf - -C "$program"
tar -cf - package.json package-lock.json .npmrc LICENSE CHANGELOG.md migrations contracts/out \
  scripts/run.mjs scripts/anvil.mjs runtime/anvil/anvil.json runtime/anvil/package.json \
  deploy/setup.sh deploy/image-users.sh deploy/healthcheck.mjs deploy/chain.mjs | tar -xf - -C "$program"
# The client package is a workspace that the lock file names.
if [ -e packages/client/package.json ]; then tar -cf - packages/client/package.json | tar -xf - -C "$program"; fi

# The launcher installs the production packages by the lock file, and marks them as complete.
node "$program/scripts/run.mjs" --version
if [ "${PKCS11:-off}" = on ]; then
  (cd "$program" && npm rebuild pkcs11js --ignore-scripts=false)
fi
ln -sf /opt/chatelaine/scripts/run.mjs "$target/usr/local/bin/chatelaine"

# Mount points, so that a read-only root file system has them. `setup.sh` sets their owners.
for folder in /etc/chatelaine-signer /etc/chatelaine-auth /etc/chatelaine-api /etc/chatelaine-owner \
  /etc/chatelaine-database /var/lib/chatelaine-signer /var/lib/chatelaine-auth /run/chatelaine-signer \
  /run/chatelaine-signer-auth /run/chatelaine-auth /chain; do
  mkdir -p "$target$folder"
done
chmod -R u=rwX,go=rX "$program"
