#!/usr/bin/env bash
# Runs a command as the root of a user namespace, which may make network namespaces.
#
#   tools/as_namespace_root.sh COMMAND [ARGUMENT]...
#
# For an ordinary user. Root needs no such namespace, and where the kernel allows none, the command
# runs as it is: its tests then skip, and say why.
set -euo pipefail

# Where ip and tc are; the PATH of Debian's ordinary users lacks it.
PATH=$PATH:/usr/sbin:/sbin
into=(unshare --user --map-root-user --net)
if ((EUID != 0)) && "${into[@]}" true 2>/dev/null; then
  # The loopback of the new network is down at first.
  exec "${into[@]}" sh -c 'ip link set lo up; exec "$@"' sh "$@"
fi
exec "$@"
