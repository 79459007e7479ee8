#!/usr/bin/env bash
# Runs mypy --strict on the Python packages together with the generated stubs of their modules.
#
#   tools/check_types.sh VENV
#
# The stubs exist only in the installed packages, the sources only here: folders of links join them,
# so that mypy sees whole packages. mypy's cache is the user's, so that it looks at what changed since
# the last run in any clone; LINT=all leaves it aside.
set -euo pipefail

cd "$(dirname "$0")/.."
rm -rf build/types
for package in python/farwrite bench/python/farwrite_bench; do
  joined=build/types/$(basename "$package")
  mkdir -p "$joined"
  ln -s "$PWD/$package"/* "$joined"
  cp "$1"/lib/python3*/site-packages/"$(basename "$package")"/_*.pyi "$joined"
done
cache=${XDG_CACHE_HOME:-$HOME/.cache}/farwrite/mypy
if [[ ${LINT:-} == all ]] || ! mkdir -p "$cache" 2>/dev/null || [[ ! -w $cache ]]; then
  cache=build/mypy
  rm -rf "$cache"
fi
MYPYPATH=build/types "$1/bin/mypy" --cache-dir "$cache" build/types/farwrite build/types/farwrite_bench
