#!/usr/bin/env bash
# Compiles each source alone: the library, its Python module and the C++ tests in build/apart, and what
# is compiled for TensorFlow in build/apart/plugin. Everything else compiles groups of sources, where
# one source's #include serves the next. Needs `make plugin`.
set -euo pipefail

cd "$(dirname "$0")/.."
say() { printf '\033[1m%s\033[0m\n' "apart: $1"; }

say "library, Python module, tests"
readarray -t settings < <(sed -nE 's/^(Python_(EXECUTABLE|INCLUDE_DIR)|CMAKE_CXX_FLAGS|FARWRITE_PYTHON):/-D&/p' \
  build/release/CMakeCache.txt)
((${#settings[@]} > 0)) || { echo "build_apart: build/release lacks the wheel; run make install" >&2; exit 1; }
cmake --preset release -B build/apart "${settings[@]}" -DFARWRITE_UNITY=OFF --log-level=WARNING >/dev/null
cmake --build build/apart --target all farwrite_tests -- --quiet

say "what is compiled for TensorFlow"
rm -rf build/apart/plugin
export FARWRITE_CACHE=$PWD/build/apart/plugin FARWRITE_CXXFLAGS="-Wall -Wextra -Werror"
PYTHONPATH=tests/python/tensorflow .venv/bin/python - <<'END'
from device_library import device_library
from farwrite.plugin import build
from farwrite_experiments import library

write = build.write_batches
build.write_batches = lambda sources, _, folder: write(sources, len(sources), folder)
build.ensure_built()
library.ensure_built()
device_library()
END
