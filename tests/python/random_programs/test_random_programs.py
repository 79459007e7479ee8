"""Random programs of some fixed seeds, and every program that once failed."""

from __future__ import annotations

import signal
import subprocess

import pytest

from random_programs import search
from random_programs.program import (
    BUILT_WORLDS,
    FABRICS,
    WORLDS,
    FailedError,
    Program,
    draw_program,
    run,
    smaller,
    steps_of,
)

SEEDS = range(4)

# What search.py printed, with a word of what it found.
KEPT = {
    "an offer that could not be read was left out, and the next tensor came": (
        "tensors tcp 2 open:21 send:489 send:286 take:975 send:650 kill:891"
    ),
    "receive(timeout) waited for a stopped peer's memory without limit": (
        "tensors shm 1 open:233 send:259 send:573 stop:428"
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("world", WORLDS)
def test_a_random_program_does_what_its_model_says(world: str, fabric: str, seed: int) -> None:
    run(draw_program(world, fabric, seed))


@pytest.mark.parametrize("program", KEPT.values(), ids=KEPT.keys())
def test_what_failed_once_goes_well(program: str) -> None:
    run(Program.parse(program))


def test_a_program_is_its_text() -> None:
    drawn = draw_program("boxes", "shm", 1)
    assert Program.parse(str(drawn)) == drawn == draw_program("boxes", "shm", 1)
    assert drawn != draw_program("boxes", "shm", 2)


def test_a_program_that_fails_is_made_smaller() -> None:
    drawn = draw_program("boxes", "tcp", 3)
    needed = {drawn.steps[2], drawn.steps[-5]}

    def fails(program: Program) -> bool:
        return needed <= set(program.steps)

    assert set(smaller(drawn, fails, 1000).steps) == needed
    assert set(smaller(drawn, fails, 0).steps) == set(drawn.steps)


def test_a_program_is_made_smaller_for_a_limited_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = draw_program("boxes", "tcp", 3)
    monkeypatch.setattr(search, "fails", lambda _: True)
    assert not search.fails_in(0)(drawn)
    assert capsys.readouterr().out == ""
    assert search.fails_in(3600)(drawn)
    assert capsys.readouterr().out == f"making it smaller: {len(drawn.steps)} steps\n"


def test_an_interrupted_search_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Interrupted(subprocess.Popen[str]):
        def wait(self, timeout: float | None = None) -> int:
            if self not in started:
                started.append(self)
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        search.started(["boxes shm 1"])
    assert [process.returncode for process in started] == [-signal.SIGKILL]


def test_a_failure_says_how_to_repeat_it() -> None:
    program = Program("boxes", "shm", 1, (("no_such_step", 4),))
    with pytest.raises(FailedError, match="--repeat 'boxes shm 1 no_such_step:4'"):
        run(program)


@pytest.mark.parametrize("world", [*WORLDS, *BUILT_WORLDS])
def test_every_world_has_steps_and_faults(world: str) -> None:
    steps = steps_of(world)
    assert any(method.is_fault for method in steps.values())
    assert any(not method.is_fault for method in steps.values())
