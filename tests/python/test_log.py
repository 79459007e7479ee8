"""Log levels: from Python, from the environment and on the command line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import farwrite as fw

# An info line of the core: the choice of a fabric.
PROGRAM = """
import sys
import farwrite as fw
if len(sys.argv) > 1:
    fw.set_log_level(sys.argv[1])
with fw.Device() as device, fw.Device() as other:
    device.connect(other.endpoint)
"""


def _stderr(*arguments: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stderr


def test_the_level_decides_what_is_said() -> None:
    assert "info: " not in _stderr("-c", PROGRAM)
    assert "info: " in _stderr("-c", PROGRAM, "info")


def test_the_level_beats_the_environment() -> None:
    assert "info: " in _stderr("-c", PROGRAM, FARWRITE_LOG="info")
    assert _stderr("-c", PROGRAM, "off", FARWRITE_LOG="info") == ""


def test_the_command_line_sets_the_level_for_its_processes_too() -> None:
    command = ("-m", "farwrite", "--log", "info", "demo", "--size", "1M", "--rounds", "1")
    said = {line.partition("]")[0] for line in _stderr(*command).splitlines() if "info: " in line}
    assert len(said) == 2, "two processes"


def test_a_level_that_does_not_exist_is_an_error() -> None:
    before = fw.log_level()
    with pytest.raises(fw.InvalidArgument, match=r'"loud".*debug'):
        fw.set_log_level("loud")  # type: ignore[arg-type]
    assert fw.log_level() == before
