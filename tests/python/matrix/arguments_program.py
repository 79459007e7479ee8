"""Every call with one nasty argument after another: arguments_program.py FABRIC [PART].

Prints a line for each that was neither done as asked nor refused by an error of Farwrite's, or
"survivor fine" if there was none. PART of a name, such as Segment.write.start, makes those alone.
The call under way is on standard error. `test_matrix_arguments.py` runs it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import inspect
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import farwrite as fw
from farwrite import box as boxes
from matrix import calls, command_line, nasty, program, world
from matrix.arrived import ARRIVED, bytes_of
from matrix.calls import WORLD
from matrix.functions import FUNCTIONS, TABLE
from matrix.kinds import LATE, SOON, Row
from matrix.made import CLOSING, ENDINGS, HANG, AlarmError, Made
from matrix.parameters import domain_of, owners, parameters, strangers
from matrix.world import the_world
from processes import PeerProcess

REFUSALS = (
    fw.InvalidArgument, fw.OutOfRange, fw.ResourceExhausted, fw.ProtocolError, fw.VersionMismatch,
)  # fmt: skip
REFUSED = (fw.InvalidArgument, fw.OutOfRange)
"""What a call with good arguments never raises."""
PATIENCE = 0.1
"""Seconds after which a call that may wait is known to."""
LONG = 20.0
"""Seconds for calls that end by themselves, so that a busy machine does not end them."""
HUNG = 250
"""Seconds after which the program shows where it is, and ends."""


class Replacing:
    """An object of which one method gets another value for one parameter."""

    def __init__(self, target: Any, entry: str, parameter: str, value: Any) -> None:
        self._target, self._entry = target, entry
        self._parameter, self._value = parameter, value
        self.given: Any = None
        """What the method would have got."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name != self._entry:
            return found

        @functools.wraps(found)
        def replaced(*words: Any, **keywords: Any) -> Any:
            bound = inspect.signature(found).bind(*words, **keywords)
            self.given = bound.arguments.get(self._parameter)
            if self._value is Replacing:  # only to look
                raise AlarmError
            bound.arguments[self._parameter] = self._value
            return found(*bound.args, **bound.kwargs)

        return replaced


class Pair:
    """A call, and one of its parameters."""

    def __init__(self, owner: str, entry: str, row: Row, parameter: str) -> None:
        self._owner, self._entry, self._row, self._parameter = owner, entry, row, parameter
        self.name = f"{owner}.{entry}.{parameter}"
        self.closes = entry in CLOSING
        self.late = LATE in row.allowed("none")
        self.slow = self.late or owner in FUNCTIONS
        takes = domain_of(f"{owner}.{entry}", parameter)
        assert takes is not None, f"{self.name}: parameters.py does not say what it takes"
        self._takes = takes

    @property
    def _target(self) -> Any:
        return WORLD[self._owner]

    def values(self) -> Iterator[Any]:
        """What is tried; of arrays, such as the table gives."""
        for value in self._takes.values:
            if not isinstance(value, nasty.OfTheWorld):
                yield value
            elif value in WORLD:
                yield WORLD[value]
        if self._row.call is not None:
            looking = Replacing(self._target, self._entry, self._parameter, Replacing)
            with contextlib.suppress(AlarmError):
                self._row.call(looking)
            if looking.given is not None:
                yield from self._takes.like(looking.given)

    def problem(self, value: Any, peer: PeerProcess) -> str | None:
        """Make the call with `value`, and say what is wrong with what came of it."""
        good = self._takes.accepts(value)
        long = good and self._takes.waits(value)
        # What has no such name waits for something to give it.
        short = self.late or self._parameter in ("name", "segment")
        calls.SHORT = SOON if short else LONG
        made = Made(self._owner, self._entry, self._row)
        if ".accumulate." in self.name:
            WORLD["Segment"].fill(0)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE if long else HANG)
        made.run(Replacing(self._target, self._entry, self._parameter, value))
        signal.setitimer(signal.ITIMER_REAL, 0)
        look = ARRIVED.get(self.name)
        if made.outcome == "returns" and good and look is not None and value is not None:
            found, sent = look(peer, value), bytes_of(value)
            if found[: len(sent)] != sent:
                return f"{self.name} = {shown(value)}: {found!r} is there, and not {sent!r}"
        return self._fault(made, value, good, long)

    def _fault(self, made: Made, value: Any, good: bool, long: bool) -> str | None:
        text = f"{self.name} = {shown(value)}: {made.outcome} ({made.says[:300]})"
        if made.outcome == "AlarmError":
            return None if long else text
        if made.outcome == "returns":
            return None if good else text
        if made.outcome == "raw HostileError":  # the caller's own
            return None
        if made.outcome.startswith("raw"):
            return text
        if made.outcome == LATE and long and (value is None or value > HANG):
            return f"{text} before its time"
        own = nasty.is_foreign(value) or any(value is one for one in strangers())
        if not good and not own and not issubclass(getattr(fw, made.outcome), REFUSALS):
            return text
        if self._takes.must(value) and issubclass(getattr(fw, made.outcome), REFUSED):
            return f"{text} is good"
        if not (": " in made.says and "; " in made.says):
            return f"{text} does not say what to do"
        return None

    def after(self, fabric: str) -> str | None:
        """Make the call as the table has it."""
        calls.SHORT = SOON if self.late else LONG
        made = Made(self._owner, self._entry, self._row)
        made.run(self._target)
        problem = made.problem("none", fabric)
        return None if problem is None else f"after {self.name}: {problem}"


def shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:
        text = "too long"
    text = " ".join(text.split())
    return f"{text if len(text) < 80 else f'{text[:77]}...'} [{type(value).__name__}]"


def pairs(part: str) -> Iterator[Pair]:
    """Every parameter of every call; those of calls that close their handle come last."""
    targets = owners()
    for closing in (False, True):
        for owner in [*(owner for owner in TABLE if owner not in ENDINGS), *ENDINGS]:
            for entry, row in TABLE[owner].items():
                if (entry in CLOSING) != closing:
                    continue
                for parameter in parameters(targets[owner], entry):
                    pair = Pair(owner, entry, row, parameter)
                    if part in pair.name:
                        yield pair


def add_strangers(fabric: str) -> None:
    """Add objects that are closed, or belong to another peer."""
    device, models = WORLD["Device"], WORLD["models"]
    WORLD["strange Segment"] = models.create("strange", 8, "float32")
    WORLD["closed RegisteredArray"] = device.allocate(8)
    WORLD["closed RegisteredArray"].close()
    with fw.Device(fabrics=[fabric]) as other:
        WORLD["strange RegisteredArray"] = other.allocate(8)
        WORLD["closed Channel"] = other.connect(WORLD["peer"], 20)
    WORLD["strange RemoteArray"] = WORLD["near_tensors"].lookup("outbox")
    with boxes.connect(WORLD["box"], fabrics=[fabric]) as leaving:
        WORLD["closed Client"] = leaving


def try_values(pair: Pair, fabric: str, peer: PeerProcess) -> Iterator[str | None]:
    """Say what is wrong with the call under each value, and with the same call afterwards.

    A call that waits for its limit, or opens a device, is made afterwards once.
    """
    for value in pair.values():
        command_line.under_way(fabric, pair.name, value=shown(value))
        yield pair.problem(value, peer)
        if not pair.slow:
            yield pair.after(fabric)
    yield pair.after(fabric)


def main(fabric: str = "", part: str = "") -> int:
    faulthandler.enable()
    command_line.check(fabric, program.FABRICS, "fabric")
    if not any(pairs(part)):
        command_line.refuse(
            f"no parameter's name contains '{part}'; tests/python/matrix/calls.py and functions.py"
            " name the calls, as in Segment.write.start"
        )
    problems = command_line.Problems()
    faulthandler.dump_traceback_later(HUNG, exit=True)
    signal.signal(signal.SIGALRM, program.interrupt)
    sys.unraisablehook = lambda _: None  # what callbacks of the caller raise
    world.SHORT = LONG
    with the_world(fabric) as peer:
        WORLD["Segment"].fill(0)
        add_strangers(fabric)
        WORLD["process"] = None  # a coroutine runs in this thread, too
        for pair in pairs(part):
            if pair.closes:
                WORLD["TensorSender"].abandon()  # nothing takes what it has sent
            for problem in try_values(pair, fabric, peer):
                if problem is not None:
                    problems.add(problem, fabric, pair.name)
        WORLD["process"] = os.getpid()
    return problems.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
