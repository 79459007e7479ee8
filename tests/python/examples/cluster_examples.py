"""The examples for clusters, and programs that stand in for those of a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CLUSTER = ROOT / "examples" / "cluster"

FAKE_SSH = """#!/bin/sh
# Runs the command here instead of on the host: ssh -o OPTION HOST COMMAND
[ "$1" = -o ] && shift 2
echo "$1" >> "$SSH_HOSTS"
exec sh -c "$2"
"""
SSH_INTO_NAMESPACES = """#!/bin/sh
# Runs the command in the network namespace that is the host: ssh -o OPTION 10.91.0.N COMMAND
eval "namespace=\\$SSH_HOST_${3##*.}"
exec nsenter --net="$namespace" -- sh -c "$4"
"""
FAKE_SCONTROL = """#!/bin/sh
[ "$*" = "show hostnames node[1-2]" ] && printf 'node1\\nnode2\\n'
"""
FAKE_SRUN = """#!/bin/sh
# Starts two tasks on each of two nodes, which are this machine.
[ "$1" = --ntasks-per-node=2 ] && [ "$2" = --kill-on-bad-exit=1 ] || exit 64
shift 2
tasks=
trap 'kill $tasks' TERM
for node in 0 1; do
  for local in 0 1; do
    SLURM_NODEID=$node SLURM_LOCALID=$local "$@" &
    tasks="$tasks $!"
  done
done
wait
"""


@contextmanager
def importable() -> Iterator[None]:
    """Let the modules of the examples be imported."""
    sys.path.insert(0, str(CLUSTER))
    try:
        yield
    finally:
        sys.path.remove(str(CLUSTER))


def environment(folder: Path, programs: Mapping[str, str]) -> dict[str, str]:
    """Write programs into `folder`, and return an environment in which they come first."""
    for name, text in programs.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
    without = {key: value for key, value in os.environ.items() if key[:9] != "FARWRITE_"}
    built_with = ("FARWRITE_CACHE", "FARWRITE_CXXFLAGS")
    kept = {key: os.environ[key] for key in built_with if key in os.environ}
    return {**without, **kept, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
