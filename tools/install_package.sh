#!/usr/bin/env bash
# Builds the wheels of the named packages below build/ and installs them into the virtual environment VENV.
# The C++ tests link what build/release holds (run_cpp_tests.sh).
#
#   tools/install_package.sh VENV [farwrite] [demo] [bench] [experiments]
#
# Normal installs, not editable ones: what runs is what a user gets. The build folders are kept and
# the build tools come from VENV, so that a later run compiles only what changed.
set -euo pipefail

cd "$(dirname "$0")/.."
python=$PWD/$1/bin/python
settings=()

# A Python without its C headers (Debian's python3 without python3-dev) gets Debian's, unpacked.
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
if [[ ! -e $include/Python.h ]]; then
  headers=usr/include/$(basename "$include")
  tools/fetch_debs.sh "lib$(basename "$include")-dev:$headers/Python.h"
  settings+=("--config-settings=cmake.define.Python_INCLUDE_DIR=$PWD/.cache/debs/$headers")
  # Debian's pyconfig.h includes another one by its path below /usr/include.
  settings+=("--config-settings=cmake.define.CMAKE_CXX_FLAGS=-idirafter$PWD/.cache/debs/usr/include")
fi

# install_wheel SOURCE BUILD [SETTING...]
install_wheel() {
  local source=$1 build=$2
  mkdir -p build
  if ! "$python" -m pip install --disable-pip-version-check --no-build-isolation --no-deps \
    --force-reinstall -v "--config-settings=build-dir=$PWD/$build" "${settings[@]}" "${@:3}" \
    "$source" >"$build.log" 2>&1; then
    tail -n 80 "$build.log" >&2
    echo "install: the build failed; all of its output is in $build.log" >&2
    exit 1
  fi
}

for package in "${@:2}"; do
  case $package in
    farwrite)
      install_wheel . build/release
      # pip gives installed headers new times, which would compile everything again. This copy keeps
      # them.
      rm -rf build/farwrite
      "$1/bin/cmake" --install build/release --prefix build/farwrite >build/farwrite.log
      ;;
    bench)
      install_wheel ./bench build/bench \
        "--config-settings=cmake.define.farwrite_DIR=$PWD/build/farwrite/farwrite/cmake"
      ;;
    *) install_wheel "./$package" "build/$package" ;;
  esac
done
"$python" -m pip check --disable-pip-version-check >/dev/null
