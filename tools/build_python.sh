#!/usr/bin/env bash
# Builds a Python that Debian has no package of, from Debian's source of it, for the tests of wheels.
#
#   tools/build_python.sh debian11 ROOT         Python 3.11 for a root folder of Debian 11
#   tools/build_python.sh free-threaded FOLDER  Python 3.13 without the GIL, FOLDER/bin/python3.13t
#
# Debian 11's own Python is 3.9. ROOT is what `tools/fetch_debs.sh --suite bullseye --into` has
# unpacked, with libstdc++-10-dev and zlib1g-dev. This system's gcc compiles for ROOT's C library,
# without optimizing; modules of libraries that ROOT lacks are left out: _ssl, _ctypes.
# The free-threaded Python is for this system, and has the modules whose libraries have headers here:
# a virtual environment of it needs zlib1g-dev and libssl-dev.
# Both take minutes, and nothing the second time. JOBS says how many compilers run, by default one a
# processor.
set -euo pipefail

[[ $# -eq 2 && $1 =~ ^(debian11|free-threaded)$ ]] \
  || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kind=$1
mkdir -p "$2"
into=$(realpath "$2")
case $kind in
  debian11) suite=bookworm package=python3.11 made=$into/usr/bin/python3.11 ;;
  free-threaded) suite=trixie package=python3.13 made=$into/bin/python3.13t ;;
esac
[[ ! -e $made ]] || exit 0
cd "$(dirname "$0")/.."
work=$(mktemp -d "$into/.python.XXXXXX")
trap 'rm -rf "$work"' EXIT
tools/fetch_debs.sh --suite "$suite" --source "$work" "$package"
mkdir "$work/source"
tar -x --no-same-owner --strip-components 1 -C "$work/source" -f "$work/$package"_*.orig.tar.*z
cd "$work/source"

build() {
  {
    ./configure --disable-test-modules "$@"
    make -j"${JOBS:-$(nproc)}"
    make install DESTDIR="$work/made"
  } >"$work/log" 2>&1 || { tail -n 60 "$work/log" >&2; exit 1; }
}

# The program is copied last, as the sign that all is there.
if [[ $kind == debian11 ]]; then
  machine=$(gcc -print-multiarch)
  # It adds this machine's folders to those of the compiler.
  sed -i "s#'/usr/include/'#'$into/usr/include/'#; s#'/usr/lib/'#'$into/usr/lib/'#" setup.py
  places=("$into/usr/lib/$machine" "$into/usr/lib/gcc/$machine/10")
  build --prefix=/usr --without-ensurepip OPT=-DNDEBUG \
    CC="gcc --sysroot=$into ${places[*]/#/-B} ${places[*]/#/-L}"
  cp -r "$work/made/usr/lib" "$into/usr"
  cp "$work/made/usr/bin/python3.11" "$into/usr/bin"
else
  build --prefix="$into" --disable-gil OPT="-O2 -DNDEBUG"
  "$work/made$into/bin/python3.13t" -c 'import ssl, zlib' \
    || { echo "build_python: its pip lacks ssl or zlib; install libssl-dev and zlib1g-dev" >&2; exit 1; }
  cp -r "$work/made$into/"{include,lib} "$into"
  mkdir -p "$into/bin"
  cp "$work/made$into/bin/python3.13t" "$into/bin"
fi
