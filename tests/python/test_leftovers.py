"""What a run left in /dev/shm is blamed on it, and what other programs have there is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leftovers import held_by_others, shared_memory_files

HOLD = """
import mmap, sys
file = open(sys.argv[1], "w+b")
file.truncate(4096)
held = mmap.mmap(file.fileno(), 4096) if sys.argv[2] == "mapped" else file
if held is not file:
    file.close()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path() -> Iterator[str]:
    """A path in /dev/shm, removed after the test."""
    name = f"/dev/shm/leftovers-test-{os.getpid()}"
    yield name
    Path(name).unlink(missing_ok=True)


def _holder(path: str, how: str, folder: str | None) -> subprocess.Popen[str]:
    # A folder other than the checkout's makes it another program, as a system's Python is.
    process = subprocess.Popen(
        [os.path.realpath(sys.executable), "-c", HOLD, path, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _end(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=30)


@pytest.mark.parametrize("how", ["open", "mapped"])
def test_a_file_of_another_program_is_not_blamed(path: str, how: str) -> None:
    before = shared_memory_files()
    process = _holder(path, how, "/")
    try:
        assert path in shared_memory_files() - before
        assert held_by_others({path}) == {path}
    finally:
        _end(process)


def test_a_file_of_a_child_is_blamed_while_it_lives_and_when_it_is_dead(path: str) -> None:
    before = shared_memory_files()
    process = _holder(path, "mapped", None)
    try:
        assert path in shared_memory_files() - before
        assert held_by_others({path}) == set()
        process.kill()
    finally:
        _end(process)
    assert path in shared_memory_files() - before
    assert held_by_others({path}) == set()
