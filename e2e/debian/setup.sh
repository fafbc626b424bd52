#!/bin/bash
# Makes this machine another one, in namespaces of its own: a copy of its file system that is thrown away, a network of
# its own without any way out, processes of its own. Ends as the first process there, which collects what others leave.
# Usage: unshare --mount --net --pid --fork --kill-child setup.sh FOLDER REPOSITORY
set -eu
box=$1 repository=$2
mount -t tmpfs tmpfs "$box"
mkdir "$box/up" "$box/work" "$box/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$box/up,workdir=$box/work" "$box/root"
cd "$box/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
install -d -o postgres -g postgres -m 2775 run/postgresql
ip link set lo up
# The network that the guide lets use the operator API.
ip address add 10.0.0.1/32 dev lo
cat >>etc/hosts <<'END'
127.0.0.1 wallet.example idp.example sepolia-node.example
END
install -m 755 "$repository/e2e/debian/systemctl" usr/local/bin/systemctl

# What the guide would fetch is here: the packages of Debian and of npm, and the repository under its address.
cat >usr/local/bin/apt-get <<'END'
#!/bin/sh
[ "$1" = update ] && exit
shift 2
for package; do dpkg-query -W "$package" >/dev/null 2>&1 || command -v "$package" >/dev/null || exit 1; done
END
chmod 755 usr/local/bin/apt-get
mkdir -p srv/hooks
cat >srv/hooks/post-checkout <<END
#!/bin/sh
for folder in node_modules runtime/node_modules; do
  [ -d "$repository/\$folder" ] || continue
  mountpoint -q "\$folder" && continue
  over=/run/over/\$(echo "\$folder" | tr / -)
  mkdir -p "\$folder" "\$over/up" "\$over/work"
  mount -t overlay overlay -o "lowerdir=$repository/\$folder,upperdir=\$over/up,workdir=\$over/work" "\$folder"
done
END
chmod 755 srv/hooks/post-checkout
cat >root/.gitconfig <<END
[safe]
  directory = *
[core]
  hooksPath = /srv/hooks
[advice]
  detachedHead = false
[url "file:///srv/git/chatelaine"]
  insteadOf = https://git.example/chatelaine
END
HOME=$box/root/root git clone -q --bare "file://$repository" srv/git/chatelaine
echo ready
exec chroot . bash -c 'while :; do sleep 1; done'
