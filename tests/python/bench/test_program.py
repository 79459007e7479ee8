"""Child programs that follow orders: answers in order, and errors that name the program."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from farwrite.errors import PeerDead
from farwrite_bench.program import Program

# Echoes each order. A few orders make it fail.
ECHOES = """
import json, os, sys, time
for line in sys.stdin:
    order = line.split()
    if order == ["leave"]:
        print("no such luck", file=sys.stderr)
        sys.exit(3)
    if order == ["talk"]:
        print("hello", flush=True)
    elif order == ["variable"]:
        print(json.dumps({"value": os.environ["ECHO"]}), flush=True)
    elif order == ["twice"]:
        print('{"n": 1}\\n{"n": 2}', flush=True)
    elif order == ["fail"]:
        break
    elif order != ["nothing"]:
        print(json.dumps({"order": order}), flush=True)
sys.exit(4 if order == ["fail"] else 0)
"""


def echoes(log: Path | None = None, *, own_group: bool = False) -> Program:
    command = [sys.executable, "-c", ECHOES]
    return Program(
        "bench test", "the echo", command, {"ECHO": "loud"}, log=log, own_group=own_group
    )


def test_orders_are_answered_in_turn() -> None:
    with echoes() as program:
        assert program.ask("a", 1) == {"order": ["a", "1"]}
        assert program.ask("variable") == {"value": "loud"}
        program.order("twice")
        assert [program.answer(20)["n"], program.answer(None)["n"]] == [1, 2]
        program.check()
        program.wait()


@pytest.mark.parametrize(
    ("follow", "said"),
    [
        (lambda program: program.ask("leave"), r"ended early \(exit status 3\)"),
        (lambda program: program.ask("talk"), "sent b'hello' instead of an answer"),
        (lambda program: (program.order("nothing"), program.answer(0.1)), "sent nothing for 0 s"),
        (lambda program: program.wait(), r"failed at its end \(exit status 4\)"),
    ],
)
def test_a_program_that_fails_is_named(
    tmp_path: Path, follow: Callable[[Program], object], said: str
) -> None:
    with echoes(tmp_path / "echo.log") as program:
        if "at its end" in said:
            program.order("fail")
        with pytest.raises(PeerDead, match=f"bench test: the echo {said}") as caught:
            follow(program)
    assert f"; command: {sys.executable} -c " in str(caught.value)
    words = str(caught.value).rpartition("; ")[2]
    assert ("no such luck" in words) == ("exit status 3" in said)


def test_without_a_log_the_error_points_at_standard_error() -> None:
    with echoes() as program, pytest.raises(PeerDead, match="its own message is above"):
        program.ask("leave")


def test_the_end_of_the_context_ends_the_program_and_its_group() -> None:
    with echoes() as program:
        assert program.ask("a")
    assert program._process.returncode == 0
    with echoes(own_group=True) as program:
        assert program.ask("a")
        assert os.getpgid(program._process.pid) == program._process.pid
    assert program._process.returncode == -signal.SIGKILL
