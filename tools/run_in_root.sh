#!/usr/bin/env bash
# Runs a command in an unpacked system, with processes, /dev, /tmp and a loopback of its own.
#
#   tools/run_in_root.sh ROOT COMMAND [ARGUMENT]...
#
# ROOT is what tools/fetch_debs.sh --into has unpacked. Needs no root: the command is the root of a
# user namespace. Nothing of what it mounts or starts is left when it ends, or when SIGTERM or SIGINT
# ends it.
set -euo pipefail

[[ $# -ge 2 ]] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
PATH=$PATH:/usr/sbin:/sbin
exec unshare --user --map-root-user --mount --pid --fork --kill-child --net bash -euc '
  root=$1
  shift
  ip link set lo up
  mkdir -p "$root"/{proc,dev,tmp}
  mount -t proc proc "$root/proc"
  mount -t tmpfs tmpfs "$root/tmp"
  mount -t tmpfs tmpfs "$root/dev"
  mkdir "$root/dev/shm"
  for name in null zero random urandom; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
  done
  # The first process of a namespace dies of no signal that it does not handle, and all others die
  # with it. So it is this shell, and not the command.
  trap "exit 143" TERM
  trap "exit 130" INT
  env -i PATH=/usr/bin:/bin HOME=/tmp LC_ALL=C.UTF-8 "$(type -P chroot)" "$root" "$@" <&0 &
  wait $!
' bash "$@"
