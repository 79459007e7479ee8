"""Random programs: how one is drawn from a seed, written as text, run, and made smaller.

A program is data: the name of a world, a fabric, a number that draws the world's options, steps.
A step is the name of a method of the world, and a number from which the method draws the rest. A
step that makes no sense where it stands is passed over, so any part of a program is a program:

    boxes tcp 7 create:31 write:4 kill_client:5 write:9

This is a small generator of our own. Hypothesis' stateful tests run a failing example again and
again, and call it flaky when it ends in another way. Here faults strike running processes, so that
the same program fails now and then; a program is made smaller with as many tries as it needs. And a
step must be text, so that a program can be kept and given to another process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from unittest import mock

WORLDS = ("channels", "tensors", "boxes", "models", "training")
"""The modules that have a `World`, each the model of a part of the contract."""
BUILT_WORLDS = {"streams": "make grpc grpc-programs", "clusters": "make plugin"}
"""Those that need more than the package, with what builds it: their `World` has `is_built`."""
FABRICS = ("shm", "tcp")
LONGEST = 90
NUMBERS = 1000
"""Numbers of steps are below this: short to write, and enough to draw from."""

SOON = "0.3s"
ENVIRONMENT = {
    "FARWRITE_DETECTION_TIME": ("5s", SOON),
    "FARWRITE_ENCRYPT": ("off", "off", "on"),
    "FARWRITE_LOG": ("error",),
    "FARWRITE_MEMORY_IDLE_TIME": ("60s", "0.05s"),
    "FARWRITE_POLLERS": ("1", "2"),
    "FARWRITE_SPIN": ("20us", "0s"),
    "FARWRITE_TOKEN": ("of random programs",),
}
"""Options of every device of a program."""

Method = TypeVar("Method", bound=Callable[..., object])


class NotNow(Exception):  # noqa: N818
    """Raised by a step that makes no sense in the present state."""


def step(often: int = 2) -> Callable[[Method], Method]:
    """Mark a method as a step, which is drawn as often as this says."""

    def mark(method: Method) -> Method:
        method.often, method.is_fault = often, False  # type: ignore[attr-defined]
        return method

    return mark


def fault(often: int = 1) -> Callable[[Method], Method]:
    """Mark a method as a step that is a fault."""

    def mark(method: Method) -> Method:
        method.often, method.is_fault = often, True  # type: ignore[attr-defined]
        return method

    return mark


class World:
    """The processes of a program, and the model of what they must see.

    Parameters
    ----------
    fabric : str
        The only fabric of its devices.
    draw : random.Random
        Draws the options.
    stack : ExitStack
        Ends what the world opens.
    """

    def __init__(self, fabric: str, draw: random.Random, stack: contextlib.ExitStack) -> None:
        self.fabric, self.draw, self.stack = fabric, draw, stack
        drawn = {name: draw.choice(values) for name, values in ENVIRONMENT.items()}
        self.soon_silent = drawn["FARWRITE_DETECTION_TIME"] == SOON
        stack.enter_context(mock.patch.dict(os.environ, drawn))

    @staticmethod
    def is_built() -> bool:
        """Whether what the world needs is there."""
        return True

    def at_rest(self) -> None:
        """Check what must hold once no call is under way."""


def need(condition: object) -> None:
    """Pass the step over unless this holds."""
    if not condition:
        raise NotNow


def choose(draw: random.Random, choices: Any) -> Any:
    """Draw one of the choices; without any the step is passed over."""
    listed = list(choices)
    need(listed)
    return draw.choice(listed)


def world_of(name: str) -> type[World]:
    found: type[World] = importlib.import_module(f"random_programs.{name}").World
    return found


def steps_of(name: str) -> dict[str, Any]:
    """The steps of a world, by name."""
    kind = world_of(name)
    return {
        entry: method for entry in dir(kind) if hasattr(method := getattr(kind, entry), "often")
    }


@dataclass(frozen=True)
class Program:
    world: str
    fabric: str
    number: int
    steps: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        steps = [f"{name}:{number}" for name, number in self.steps]
        return " ".join([self.world, self.fabric, str(self.number), *steps])

    @staticmethod
    def parse(text: str) -> Program:
        world, fabric, number, *words = text.split()
        pairs = (word.split(":") for word in words)
        return Program(world, fabric, int(number), tuple((name, int(n)) for name, n in pairs))


def draw_program(world: str, fabric: str, seed: int) -> Program:
    """Draw a program. It uses a part of the steps, so that rare ones meet each other."""
    draw = random.Random(f"{world} {fabric} {seed}")
    steps = steps_of(world)
    left_out = draw.choice([0.0, 0.2, 0.5])
    chosen = [name for name in steps if steps[name].often > 2 or draw.random() >= left_out]
    often = [steps[name].often for name in chosen]
    names = draw.choices(chosen, often, k=draw.randint(LONGEST // 3, LONGEST))
    drawn = tuple((name, draw.randrange(NUMBERS)) for name in names)
    return Program(world, fabric, draw.randrange(NUMBERS), drawn)


class FailedError(AssertionError):
    """A program did not do what its model says."""


Reached = Counter[tuple[str, str, str]]
"""How often a step of a world was made, by the fault before it."""


def run(program: Program, reached: Reached | None = None) -> None:
    """Run a program.

    Raises
    ------
    FailedError
        With the program and the step, from what went wrong.
    """
    steps = steps_of(program.world)
    last, name = "none", "open"
    try:
        with contextlib.ExitStack() as stack:
            draw = random.Random(program.number)
            world = world_of(program.world)(program.fabric, draw, stack)
            for name, number in program.steps:
                try:
                    getattr(world, name)(random.Random(number))
                except NotNow:
                    continue
                if reached is not None:
                    reached[program.world, name, last] += 1
                if steps[name].is_fault:
                    last = name
            name = "at_rest"
            world.at_rest()
            name = "close"
    except Exception as error:
        says = f"{name} after {last}: {type(error).__name__}: {error}"
        raise FailedError(f"{says}\nrepeat it: {command(program)}") from error


def command(program: Program) -> str:
    """The line that repeats a program."""
    return (
        "PYTHONPATH=tests/python .venv/bin/python tests/python/random_programs/search.py"
        f" --repeat '{program}'"
    )


def parts(program: Program) -> Iterator[Program]:
    """Programs that lack a part of the steps, at first large parts."""
    size = len(program.steps)
    length = size // 2
    while length >= 1:
        for first in range(0, size, length):
            steps = program.steps[:first] + program.steps[first + length :]
            yield Program(program.world, program.fabric, program.number, steps)
        length //= 2


def smaller(program: Program, fails: Callable[[Program], bool], tries: int) -> Program:
    """Leave out steps as long as the program fails, and there are tries left."""
    found = True
    while found:
        found = False
        for part in parts(program):
            if tries == 0:
                return program
            tries -= 1
            if fails(part):
                program, found = part, True
                break
    return program
