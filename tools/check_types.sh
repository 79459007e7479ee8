#!/usr/bin/env bash
# Runs mypy --strict on the Python packages together with the generated stubs of their modules.
#
#   tools/check_types.sh VENV
#
# The stubs exist only in the installed packages, the sources only here: folders of links join them,
# so that mypy sees whole packages.
set -euo pipefail

cd "$(dirname "$0")/.."
rm -rf build/types
for package in python/farwrite bench/python/farwrite_bench; do
  joined=build/types/$(basename "$package")
  mkdir -p "$joined"
  ln -s "$PWD/$package"/* "$joined"
  cp "$1"/lib/python3*/site-packages/"$(basename "$package")"/_*.pyi "$joined"
done
MYPYPATH=build/types "$1/bin/mypy" --cache-dir build/mypy build/types/farwrite build/types/farwrite_bench
