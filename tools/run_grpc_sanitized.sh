#!/usr/bin/env bash
# Runs gRPC over Farwrite under the sanitizer of a preset; results go to build/PRESET/results/grpc.xml.
#
#   tools/run_grpc_sanitized.sh asan|tsan
#
# Takes the core from build/PRESET and gRPC's programs from build/grpc, and builds what those lack.
# The component comes to build/PRESET/grpc/lib, and the programs to build/grpc/programs/PRESET: ours
# are compiled for the sanitizer, gRPC's own are linked with its runtime. gRPC's libraries are
# Debian's as they are.
set -euo pipefail

cd "$(dirname "$0")/.."
preset=$1
say() { printf '\033[1m%s\033[0m\n' "test: $1"; }
launch=()
if [[ $preset == tsan ]] && setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
  launch=(setarch "$(uname -m)" --addr-no-randomize)  # as in run_cpp_tests.sh
fi
# Each kind of connection, of end and of breach; the rest of tests/python/grpc waits more than it does.
select="test_connections or test_kept_messages or test_enable or test_connection_faults and not outlasts or large_unary and not alone
  or rpc_soak or channel_soak or dropped and (ready or nonsense) or breaks_the_rules and server"

# Without descriptors TSan cannot read the names that it is to suppress.
[[ $preset != tsan ]] || select="($select) and not descriptors"

say "build gRPC over Farwrite for $preset"
if ! tools/fetch_grpc.sh; then
  echo "gRPC over Farwrite is NOT tested under $preset: gRPC 1.51.1 of Debian 12 is unavailable" >&2
  exit 0
fi
cmake --preset "$preset" --log-level=WARNING >/dev/null
cmake --build --preset "$preset" --target farwrite -- --quiet
folder=$PWD/build/$preset/grpc
cmake --install "build/$preset" --prefix "$folder" >/dev/null
prefix=$PWD/.cache/debs
[[ -e $prefix/usr/include/grpc/grpc.h ]] || prefix=/
sanitizer=$(sed -n 's/^FARWRITE_SANITIZE:[A-Z]*=//p' "build/$preset/CMakeCache.txt")
cmake -S src/grpc -B "$folder/build" -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Debug \
  -DFARWRITE_SANITIZE="$sanitizer" -Dfarwrite_DIR="$folder/lib/cmake/farwrite" \
  -DGRPC_SOURCE="$PWD/.cache/grpc/grpc-1.51.1" -DGRPC_PREFIX="$prefix" \
  -DCMAKE_INSTALL_PREFIX="$folder/lib" >/dev/null
cmake --build "$folder/build" -- --quiet
cmake --install "$folder/build" >/dev/null
cmake -S tests/grpc -B build/grpc -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=WARNING >/dev/null
nice -n 10 cmake --build build/grpc --parallel 2 --target "programs_$preset" -- --quiet

say "run gRPC over Farwrite under $preset"
FARWRITE_GRPC_SANITIZED=$preset "${launch[@]}" pytest -q -n 4 --dist load -k "${select//$'\n'/ }" \
  --junit-xml="build/$preset/results/grpc.xml" \
  tests/python/grpc/test_{connections,connection_faults,enable,interop,kept_messages,upgrade}.py
