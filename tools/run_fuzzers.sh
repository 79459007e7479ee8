#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs each for FUZZ_SECONDS (10).
#
#   tools/run_fuzzers.sh [TARGET...]        all of tests/fuzz/*_fuzz.cc by default
#
# The targets of the TensorFlow plug-in are named tensorflow/TARGET. They need Farwrite and TensorFlow in
# .venv.
#
# What libFuzzer found worth keeping stays in out/fuzz/TARGET/corpus for the next run, its output in
# out/fuzz/TARGET/log, and an input that broke the target in out/fuzz/TARGET/. FUZZ_JOBS targets run
# at a time (one per core).
set -euo pipefail

cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-10}
jobs=${FUZZ_JOBS:-$(nproc)}
clang_version=19
# Longer inputs only make libFuzzer slower, except where a frame of more than 64 KiB counts.
max_len=4096
export seconds max_len
unset FARWRITE_LOG FARWRITE_COPY_KERNEL

runtime=usr/lib/llvm-$clang_version/lib/clang/$clang_version/lib/linux
runtime+=/libclang_rt.fuzzer-$(uname -m).a
if ! tools/fetch_debs.sh "clang-$clang_version:usr/bin/clang++-$clang_version" \
  "libclang-rt-$clang_version-dev:$runtime"; then
  echo "fuzz: the fuzz targets need clang $clang_version with libFuzzer, which g++ lacks, and" \
    "Debian's packages of it could not be fetched; nothing was fuzzed. On another system, install" \
    "clang $clang_version and its compiler-rt so that /usr/bin/clang++-$clang_version exists" >&2
  exit 1
fi

printf '\033[1m%s\033[0m\n' "fuzz: build"
plugin=OFF
if .venv/bin/python tests/fuzz/tensorflow/flags.py compile >/dev/null 2>&1; then
  plugin=ON
else
  echo "fuzz: the targets of the TensorFlow plug-in are NOT fuzzed: .venv lacks Farwrite or TensorFlow" \
    "(make plugin)" >&2
fi
cmake --preset fuzz --log-level=WARNING -DFARWRITE_PLUGIN_FUZZ=$plugin >/dev/null
cmake --build --preset fuzz -- --quiet

targets=("$@")
if ((${#targets[@]} == 0)); then
  sources=(tests/fuzz/*_fuzz.cc)
  [[ $plugin == OFF ]] || sources+=(tests/fuzz/tensorflow/*_fuzz.cc)
  for source in "${sources[@]}"; do
    target=${source#tests/fuzz/}
    targets+=("${target%_fuzz.cc}")
  done
fi

# Prints a line for its target; fails if the target broke.
run_target() {
  local target=$1 out=out/fuzz/$1 name=${1##*/} options runs
  local folder=tests/fuzz/${target%"$name"}
  local program=build/fuzz/${folder%/}/fuzz_$name
  [[ -x $program ]] || { echo "fuzz: there is no target '$target'" >&2; return 1; }
  mkdir -p "$out/corpus"
  options=(-timeout=20 -rss_limit_mb=1024)
  [[ $target == frame ]] && max_len=140000
  [[ -e tests/fuzz/dictionaries/$target.dict ]] \
    && options+=("-dict=tests/fuzz/dictionaries/$target.dict")
  # The corpus that grows comes first: libFuzzer writes into the first folder it is given.
  local folders=("$out/corpus" "${folder}corpus/$name")
  [[ -d ${folder}regressions/$name ]] && folders+=("${folder}regressions/$name")
  if ! "$program" "${options[@]}" "-max_len=$max_len" "-max_total_time=$seconds" \
    "-artifact_prefix=$out/" -print_final_stats=1 "${folders[@]}" >"$out/log" 2>&1; then
    local found
    found=$(sed -nE 's/.*Test unit written to (.*)/\1/p' "$out/log" | tail -n 1)
    {
      tail -n 60 "$out/log"
      echo "fuzz: $target FAILED; all it said is in $out/log"
      [[ -z $found ]] || echo "fuzz: to repeat: $program ${found#./}"
      echo "fuzz: once mended, put the input into ${folder}regressions/$name/"
    } >&2
    return 1
  fi
  runs=$(sed -nE 's/^stat::number_of_executed_units: *//p' "$out/log")
  printf '%-26s %9d runs, %6d a second, %5d inputs kept\n' "$target" "$runs" \
    "$(sed -nE 's/^stat::average_exec_per_sec: *//p' "$out/log")" \
    "$(find "$out/corpus" -type f | wc -l)"
}
export -f run_target

printf '\033[1m%s\033[0m\n' "fuzz: ${#targets[@]} targets, $seconds s each, $jobs at a time"
# clang's own symbolizer is in a package of 100 MB; binutils' reads the reports as well.
symbolizer=$(command -v llvm-symbolizer || command -v addr2line || true)
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
ASAN_OPTIONS+=${symbolizer:+:external_symbolizer_path=$symbolizer}
export UBSAN_OPTIONS=print_stacktrace=1
# protobuf reports every malformed string of the plug-in's targets.
export TF_CPP_MIN_LOG_LEVEL=3
printf '%s\n' "${targets[@]}" \
  | xargs -P "$jobs" -I{} bash -euo pipefail -c 'run_target "$1"' run_target {} \
  || { echo "fuzz: a target broke, see above" >&2; exit 1; }
