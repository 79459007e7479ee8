#!/usr/bin/env bash
# Runs mypy --strict on the Python packages together with the generated stubs of their modules.
#
#   tools/check_types.sh VENV
#
# The stubs exist only in the installed packages, the sources only here: folders of links join them,
# so that mypy sees whole packages. mypy's cache is the user's, one for each path of a checkout, so
# that it looks at what changed since the last run there; LINT=all leaves it aside.
set -euo pipefail

cd "$(dirname "$0")/.."
rm -rf build/types
for package in python/farwrite {demo,bench,experiments}/python/farwrite_*; do
  joined=build/types/$(basename "$package")
  mkdir -p "$joined"
  ln -s "$PWD/$package"/* "$joined"
  find "$1"/lib/python3*/site-packages/"$(basename "$package")" -maxdepth 1 -name "_*.pyi" \
    -exec cp {} "$joined" \;
done
cache=${XDG_CACHE_HOME:-$HOME/.cache}/farwrite/mypy/$(pwd | sha256sum | cut -c 1-16)
if [[ ${LINT:-} == all ]] || ! mkdir -p "$cache" 2>/dev/null; then
  cache=build/mypy
  rm -rf "$cache"
fi
check() {
  MYPYPATH=build/types "$1/bin/mypy" --cache-dir "$2" build/types/farwrite*
}
status=0
check "$1" "$cache" || status=$?
if ((status > 1)); then
  # Not findings: the cache is damaged, or not this user's.
  rm -rf build/mypy "$cache" || :
  status=0
  check "$1" build/mypy || status=$?
fi
exit "$status"
