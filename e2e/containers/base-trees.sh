#!/bin/sh
# Makes the file trees of the two base images from packages of this machine, because no registry of images is reached:
# base-trees.sh NODE TARGET writes TARGET/node (Debian, Node.js, npm) and TARGET/postgres (Debian, PostgreSQL). NODE is the
# program file of Node.js.
set -eu
node=$1 target=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$target"
cd "$target"
umask 022

# Programs and data of packages, without documents, and the libraries that the programs load.
copy() { # TREE PACKAGE…
  tree=$1
  shift
  dpkg-query -L "$@" | grep -vE '^/usr/share/(doc|man|locale|info|lintian|bug|perl5)/|/bitcode/|llvmjit' | sort -u |
    while read -r file; do if [ -h "$file" ] || [ -f "$file" ]; then echo "$file"; fi; done |
    grep -vxE '/(s?bin|lib[a-z0-9]*)' >"$tree.files"
  grep -E '/s?bin/|\.so$' "$tree.files" | xargs ldd 2>/dev/null | grep -oE '/[^ :]+\.so[.0-9]*' | sort -u >"$tree.libraries"
  readlink -f $(cat "$tree.libraries") | cat - "$tree.files" "$tree.libraries" | sort -u |
    tar -cPf - --no-recursion -T - | tar -xf - -C "$tree" --keep-directory-symlink 2>/dev/null
}

for tree in node postgres; do
  mkdir -p $tree/proc $tree/sys $tree/dev $tree/run $tree/root $tree/tmp $tree/var/tmp $tree/etc/ssl/certs \
    $tree/usr/bin $tree/usr/sbin $tree/usr/lib $tree/usr/lib64 $tree/usr/local/bin
  chmod 1777 $tree/tmp $tree/var/tmp
  for folder in bin sbin lib lib64; do ln -sfn usr/$folder $tree/$folder; done
  copy $tree base-files bash coreutils dash debianutils findutils grep gzip hostname libc-bin libc6 sed tar util-linux
  cp /usr/share/base-passwd/passwd.master $tree/etc/passwd
  cp /usr/share/base-passwd/group.master $tree/etc/group
  printf 'passwd: files\ngroup: files\nhosts: files dns\n' >$tree/etc/nsswitch.conf
  cp /etc/ld.so.cache $tree/etc/
done

cp "$node" node/usr/local/bin/node
ldd "$node" | grep -oE '/[^ :]+\.so[.0-9]*' | xargs -I '{}' cp -L '{}' node/usr/lib/x86_64-linux-gnu/
mkdir -p node/usr/local/lib/node_modules node/usr/local/etc
cp -a "$(npm root --global)/npm" node/usr/local/lib/node_modules/
for name in npm npx; do ln -sf ../lib/node_modules/npm/bin/$name-cli.js node/usr/local/bin/$name; done

version=$(ls /usr/lib/postgresql | sort -V | tail -n 1)
copy postgres "postgresql-$version" "postgresql-client-$version" tzdata
echo 'postgres:x:999:999::/var/lib/postgresql:/bin/bash' >>postgres/etc/passwd
echo 'postgres:x:999:' >>postgres/etc/group
mkdir -p postgres/docker-entrypoint-initdb.d postgres/var/lib/postgresql/data postgres/var/run/postgresql
for program in "postgres/usr/lib/postgresql/$version/bin/"*; do
  ln -sf "/${program#postgres/}" "postgres/usr/local/bin/${program##*/}"
done
cp "$here/docker-entrypoint.sh" postgres/usr/local/bin/
chmod 755 postgres/usr/local/bin/docker-entrypoint.sh
chown -R 999:999 postgres/var/lib/postgresql postgres/var/run/postgresql
