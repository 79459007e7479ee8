"""An interrupted ``farwrite reproduce`` leaves its benchmark the time to clean up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = """
import os, sys, time
from pathlib import Path

interrupts = Path(sys.argv[1])
begun = False
while True:
    try:
        if not begun:
            begun = True
            print(os.getpid(), flush=True)
        while True:  # a signal that comes just before a sleep is noticed after it
            time.sleep(0.05)
    except KeyboardInterrupt:
        interrupts.write_text(f"{len(interrupts.read_text()) + 1}")
        {answer}
"""
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
CLEAN_UP = "time.sleep(1.5); interrupts.write_text(interrupts.read_text() + ' clean'); break"
STARTER = """
import signal, sys
from farwrite_experiments.reproduce import run_to_end
signal.signal(signal.SIGINT, getattr(signal, sys.argv.pop(1)))
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
run_to_end([sys.executable, *sys.argv[1:]], sys.stdout)
"""


@contextmanager
def running(
    folder: Path, answer: str, handler: str = "default_int_handler"
) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """Run a program by `run_to_end`; yield the starter, the program's id and its file.

    The program does `answer` at a KeyboardInterrupt. Its file has the count of those. The starter
    has this handler of SIGINT.
    """
    file, interrupts = folder / "program.py", folder / "interrupts"
    file.write_text(PROGRAM.replace("{answer}", answer))
    interrupts.touch()
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, handler, str(file), str(interrupts)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as starter:
        assert starter.stdout is not None
        program = int(starter.stdout.readline())
        try:
            yield starter, program, interrupts
        finally:
            starter.kill()
            if lives(program):
                os.kill(program, signal.SIGKILL)


def lives(process: int) -> bool:
    """Whether a process has not ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_for_end(process: int) -> None:
    """Wait until a process has ended."""
    give_up = time.monotonic() + 20
    while lives(process):
        assert time.monotonic() < give_up, "the program still runs"
        time.sleep(0.02)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
@pytest.mark.parametrize("to_group", [False, True])
def test_the_benchmark_cleans_up_after_one_interrupt(
    tmp_path: Path, number: signal.Signals, to_group: bool
) -> None:
    with running(tmp_path, CLEAN_UP) as (starter, program, interrupts):
        if to_group:
            os.killpg(starter.pid, number)  # as a terminal's Ctrl-C
        else:
            starter.send_signal(number)
        assert starter.wait(20) == -number
        if number == signal.SIGINT:
            assert not lives(program), "the starter did not wait"
        wait_for_end(program)
        assert interrupts.read_text() == "1 clean"


def test_a_second_interrupt_kills_a_benchmark_that_does_not_end(tmp_path: Path) -> None:
    with running(tmp_path, "pass") as (starter, program, interrupts):
        starter.send_signal(signal.SIGINT)
        give_up = time.monotonic() + 20
        while interrupts.read_text() != "1":
            assert time.monotonic() < give_up
            time.sleep(0.02)
        assert lives(program)
        starter.send_signal(signal.SIGINT)
        assert starter.wait(20) == -signal.SIGINT
        assert not lives(program)


def test_the_benchmark_can_be_interrupted_where_its_starter_ignores_it(tmp_path: Path) -> None:
    with running(tmp_path, CLEAN_UP, "SIG_IGN") as (starter, program, interrupts):
        starter.send_signal(signal.SIGTERM)
        wait_for_end(program)
        assert interrupts.read_text() == "1 clean"
