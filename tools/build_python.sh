#!/usr/bin/env bash
# Builds Python 3.11 for a root folder of Debian 11, whose own is 3.9, from the source of Debian 12.
#
#   tools/build_debian11_python.sh ROOT
#
# ROOT is what `tools/fetch_debs.sh --suite bullseye --into` has unpacked, with libstdc++-10-dev and
# zlib1g-dev. This system's gcc compiles for ROOT's C library, in minutes, and without optimizing.
# Modules of libraries that ROOT lacks are left out: _ssl, _ctypes. Costs nothing the second time.
set -euo pipefail

[[ $# -eq 1 ]] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(realpath "$1")
[[ ! -e $root/usr/bin/python3.11 ]] || exit 0
cd "$(dirname "$0")/.."
machine=$(gcc -print-multiarch)
work=$(mktemp -d "$root/.python.XXXXXX")
trap 'rm -rf "$work"' EXIT
tools/fetch_debs.sh --suite bookworm --source "$work" python3.11
mkdir "$work/source"
tar -x --no-same-owner --strip-components 1 -C "$work/source" -f "$work"/python3.11_*.orig.tar.gz
cd "$work/source"
# It adds this machine's folders to those of the compiler.
sed -i "s#'/usr/include/'#'$root/usr/include/'#; s#'/usr/lib/'#'$root/usr/lib/'#" setup.py
places=("$root/usr/lib/$machine" "$root/usr/lib/gcc/$machine/10")
CC="gcc --sysroot=$root ${places[*]/#/-B} ${places[*]/#/-L}"
{
  ./configure --prefix=/usr --without-ensurepip --disable-test-modules CC="$CC" OPT=-DNDEBUG
  make -j"$(nproc)"
  make install DESTDIR="$work/made"
} >"$work/log" 2>&1 || { tail -n 60 "$work/log" >&2; exit 1; }
cp -r "$work/made/usr/lib" "$root/usr"
cp "$work/made/usr/bin/python3.11" "$root/usr/bin"  # last, as the sign that all is there
