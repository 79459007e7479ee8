#!/usr/bin/env bash
# Builds gRPC's own test programs and ours in build/grpc/programs: minutes at first, on purpose slow.
#
#   tools/build_grpc_programs.sh
#
# Fetches gRPC first. Needs cmake and ninja in PATH; make grpc-programs provides them. The compilers
# run at low priority and two at a time, because gRPC's headers cost a compiler 1 GB of memory.
set -euo pipefail

cd "$(dirname "$0")/.."
tools/fetch_grpc.sh
cmake -S tests/grpc -B build/grpc -G Ninja -DCMAKE_BUILD_TYPE=Release --log-level=WARNING >/dev/null
nice -n 10 cmake --build build/grpc --parallel 2
