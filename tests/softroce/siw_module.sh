#!/usr/bin/env bash
# Builds the module siw, iWARP over plain TCP, which Debian's kernels leave out, from its sources.
#
#   tests/softroce/siw_module.sh KERNEL_TREE WORK_FOLDER
#
# Puts siw.ko beside the modules of KERNEL_TREE. Fetches the kernel's headers and sources (150 MB)
# into WORK_FOLDER, which may go afterwards. Needs GCC 12, with which Debian 12's kernels are made.
set -euo pipefail

cd "$(dirname "$0")/../.."
kernel=$(realpath "$1")
mkdir -p "$2"
work=$(realpath "$2")
version=$(basename "$kernel"/lib/modules/*)

tools/fetch_debs.sh --into "$work" --only 'linux-@(headers|kbuild|source)-[0-9]*' \
  linux-headers-amd64:'usr/src/linux-headers-*-amd64/Makefile' \
  linux-source:'usr/src/linux-source-*.tar.xz'
if [[ ! -d $work/usr/src/linux-headers-$version ]]; then
  echo "softroce: the headers are not those of the kernel $version; remove $kernel/.. and try again" >&2
  exit 1
fi

# The kernel's make takes no blanks in paths.
short=$(mktemp -d)
trap 'rm -rf "$short"' EXIT
ln -s "$work" "$short/work"
here=$short/work
tar -xf "$work"/usr/src/linux-source-*.tar.xz --strip-components=4 -C "$work" \
  --wildcards '*/drivers/infiniband/sw/siw'
sed -i "s,include .*/linux-headers,include $here/usr/src/linux-headers," \
  "$work/usr/src/linux-headers-$version/Makefile"
make -s -j"$(nproc)" -C "$here/usr/src/linux-headers-$version" M="$here/siw" CONFIG_RDMA_SIW=m modules
mkdir -p "$kernel/lib/modules/$version/kernel/extra"
strip --strip-debug -o "$kernel/lib/modules/$version/kernel/extra/siw.ko" "$work/siw/siw.ko"
