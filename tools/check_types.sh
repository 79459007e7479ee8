#!/usr/bin/env bash
# Runs mypy --strict on the Python package together with the generated stub of _farwrite.
#
#   tools/check_types.sh VENV
#
# The stub exists only in the installed package, the sources only here: a folder of links joins
# them, so that mypy sees one package.
set -euo pipefail

cd "$(dirname "$0")/.."
joined=build/types/farwrite
rm -rf build/types
mkdir -p "$joined"
ln -s "$PWD"/python/farwrite/* "$joined"
for stub in "$1"/lib/python3*/site-packages/farwrite/_farwrite.pyi; do
  if [[ -e $stub ]]; then cp "$stub" "$joined"; fi
done
"$1/bin/mypy" --cache-dir build/mypy "$joined"
