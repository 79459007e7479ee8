#!/usr/bin/env bash
# Runs the TensorFlow plug-in under the sanitizers of a preset, in real clusters; results go to
# build/PRESET/results/plugin.xml and plugin_fuzz.xml.
#
#   tools/run_plugin_sanitized.sh asan [PYTEST ARGUMENT]...
#
# The plug-in is compiled with ASan and UBSan into build/PRESET/plugin. TensorFlow, Python and the
# installed libfarwrite.so stay as they are; the runtime of the sanitizers is preloaded into every
# process. Also runs the plug-in's fuzz targets (tests/fuzz/tensorflow) over their corpora.
set -euo pipefail

cd "$(dirname "$0")/.."
preset=$1
shift
say() { printf '\033[1m%s\033[0m\n' "test: $1"; }
[[ $preset == asan ]] || { echo "run_plugin_sanitized: there is no lane for $preset" >&2; exit 2; }

# Of the clusters' tests, one for each: landing, a read whose sender dies, slices that no kernel may
# write into, collectives, tasks that are killed and started again, the calls of eager contexts, and a
# client's feeds and fetches.
tests=(
  test_landing.py::test_edges_that_repeat_need_no_request_and_no_allocation
  test_plugin_tcp.py::test_a_sender_killed_in_a_read_ends_the_step_and_nothing_else
  test_plugin_semantics.py::test_no_kernel_computes_in_a_slice_of_a_received_tensor
  'test_collectives.py::test_collectives_go_by_farwrite_and_end_as_they_should[tcp]'
  'test_plugin_faults.py::test_killed_tasks_fail_the_step_and_restarted_ones_join[shm]'
  'test_eager_control.py::test_calls_of_every_kind_are_answered_as_by_stock[tcp]'
  'test_session_target.py::test_a_program_sees_what_it_sees_of_stock[tcp]'
)
tests=("${tests[@]/#/tests/python/tensorflow/}")
(($# == 0)) || tests=("$@")

# -U: under ASan the classes of absl and protobuf have further members, and in TensorFlow's libraries
# they have not. The checks that are off: vptr needs type information that TensorFlow's libraries do
# not export; with the others GCC 12 does not take for constant what absl needs to be (whether a
# function is null).
export FARWRITE_CXXFLAGS="-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined
  -U__SANITIZE_ADDRESS__ -fno-sanitize=vptr,null,nonnull-attribute,returns-nonnull-attribute
  -fno-sanitize-recover=undefined"
export FARWRITE_CACHE=$PWD/build/$preset/plugin

say "build the plug-in for $preset"
farwrite tensorflow build
cmake --preset "$preset" --log-level=WARNING -DFARWRITE_PLUGIN_FUZZ=ON >/dev/null
cmake --build --preset "$preset" --target farwrite_plugin_fuzz_tests -- --quiet

# Each process writes its findings to a file here: the test may end it before the test reads its output.
results=$PWD/build/$preset/results
reports=$results/plugin_reports
rm -rf "$reports"
mkdir -p "$reports"
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1

say "run the plug-in's fuzz targets over their corpora under $preset"
# protobuf reports every malformed string.
TF_CPP_MIN_LOG_LEVEL=3 "build/$preset/tests/fuzz/tensorflow/farwrite_plugin_fuzz_tests" \
  --gtest_brief=1 "--gtest_output=xml:$results/plugin_fuzz.xml"

# No leaks in whole processes: LeakSanitizer does not search the memory of Python's allocator, and so
# reports 2,457 leaks of 6 MB after `import tensorflow` alone. The tests compare counters of what is held.
ASAN_OPTIONS+=:detect_leaks=0:log_path=$reports/asan
UBSAN_OPTIONS+=:log_path=$reports/ubsan

say "run the plug-in under $preset"
preload="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)"
status=0
LD_PRELOAD=$preload pytest -q -n 2 --dist load --junit-xml="$results/plugin.xml" \
  "${tests[@]}" || status=$?
for report in "$reports"/*; do
  [[ -s $report ]] || continue
  cat "$report" >&2
  echo "plugin: a sanitizer reported the above ($report)" >&2
  status=1
done
exit "$status"
