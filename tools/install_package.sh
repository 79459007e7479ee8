#!/usr/bin/env bash
# Builds Farwrite's wheel in build/wheel and installs it into the virtual environment VENV.
#
#   tools/install_package.sh VENV
#
# A normal install, not an editable one: what runs is what a user gets. The build folder is kept
# and the build tools come from VENV, so that a later run compiles only what changed.
set -euo pipefail

cd "$(dirname "$0")/.."
python=$PWD/$1/bin/python
settings=(--config-settings=build-dir=build/wheel)

# A Python without its C headers (Debian's python3 without python3-dev) gets Debian's, unpacked.
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
if [[ ! -e $include/Python.h ]]; then
  headers=usr/include/$(basename "$include")
  tools/fetch_debs.sh "lib$(basename "$include")-dev:$headers/Python.h"
  settings+=("--config-settings=cmake.define.Python_INCLUDE_DIR=$PWD/.cache/debs/$headers")
  # Debian's pyconfig.h includes another one by its path below /usr/include.
  settings+=("--config-settings=cmake.define.CMAKE_CXX_FLAGS=-idirafter$PWD/.cache/debs/usr/include")
fi

log=build/wheel.log
mkdir -p build
if ! "$python" -m pip install --disable-pip-version-check --no-build-isolation --no-deps \
  --force-reinstall -v "${settings[@]}" . >"$log" 2>&1; then
  tail -n 80 "$log" >&2
  echo "install: the build failed; all of its output is in $log" >&2
  exit 1
fi
"$python" -m pip check --disable-pip-version-check >/dev/null
