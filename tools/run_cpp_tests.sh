#!/usr/bin/env bash
# Builds the C++ tests in build/PRESET and runs them; results go to build/PRESET/results/*.xml.
#
#   tools/run_cpp_tests.sh [--build-only] release|asan|tsan [SUITE]...
#
# A suite is unit, conformance, interface, fault, cuda or fuzz, with a sanitizer also doubles; none means all.
set -euo pipefail

cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
tools/fetch_debs.sh googletest:usr/src/googletest/googletest/include/gtest/gtest.h
unset FARWRITE_LOG FARWRITE_COPY_KERNEL  # tests state their own
build_only=
[[ $1 != --build-only ]] || { build_only=yes; shift; }
preset=$1
shift
targets=()
select=()
if (($# > 0)); then
  for suite in "$@"; do targets+=(--target "farwrite_${suite}_tests"); done
  select=(-R "^($(IFS='|'; echo "$*"))(_[0-9])?\$")
fi
launch=()
if [[ $preset == tsan ]] && setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
  # GCC 12's TSan gives up when the kernel places mappings at more than 28 random bits.
  launch=(setarch "$(uname -m)" --addr-no-randomize)
fi

printf '\033[1m%s\033[0m\n' "test: build $preset"
cmake --preset "$preset" --log-level=WARNING >/dev/null
cmake --build --preset "$preset" "${targets[@]}" -- --quiet
[[ -z $build_only ]] || exit 0
rm -rf "build/$preset/results"
printf '\033[1m%s\033[0m\n' "test: run $preset"
"${launch[@]}" ctest --preset "$preset" --parallel $((2 * $(nproc))) "${select[@]}"
