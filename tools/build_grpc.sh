#!/usr/bin/env bash
# Builds gRPC over Farwrite (src/grpc) into the installed package of a virtual environment.
#
#   tools/build_grpc.sh VENV
#
# gRPC's packages and private headers come from .cache (tools/fetch_grpc.sh).
set -euo pipefail

cd "$(dirname "$0")/.."
venv=$1
tools/fetch_grpc.sh
package=$("$venv/bin/python" -c 'import farwrite, pathlib; print(pathlib.Path(farwrite.__file__).parent)')
prefix=$PWD/.cache/debs
[[ -e $prefix/usr/include/grpc/grpc.h ]] || prefix=/
cmake -S src/grpc -B build/grpc/component -G Ninja --log-level=WARNING \
  -Dfarwrite_DIR="$("$venv/bin/farwrite" config --cmake-dir)" \
  -DGRPC_SOURCE="$PWD/.cache/grpc/grpc-1.51.1" -DGRPC_PREFIX="$prefix" \
  -DCMAKE_INSTALL_PREFIX="$package" >/dev/null
cmake --build build/grpc/component
cmake --install build/grpc/component >/dev/null
