"""The same call on the same handle from several threads at once, even while one closes the handle.

No change is lost or doubled: four calls at once do what four calls in turn do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from matrix import calls as table
from matrix.calls import WORLD
from matrix.command_line import drawn
from matrix.counters import growth, posted
from matrix.kinds import LATE, SOON
from matrix.made import (
    ENDINGS,
    HANG,
    MAKES_ANOTHER,
    Made,
    calls,
    can_be_closed,
    close_handle,
)

THREADS = 4
LONG = 20.0
"""Seconds for calls that end by themselves, so that a busy machine does not end them."""
UNDER_WAY = 0.1
"""Seconds for which the calls of a class are made before its handle closes."""


def begin(made: list[Made], run: Callable[[Made], object]) -> list[threading.Thread]:
    """Run each in a thread; all of them begin together."""
    together = threading.Barrier(len(made))

    def begin_one(one: Made) -> None:
        together.wait()
        run(one)

    threads = [threading.Thread(target=begin_one, args=[one], daemon=True) for one in made]
    for thread in threads:
        thread.start()
    return threads


def done(makes: Callable[[], object]) -> tuple[dict[str, int], bytes]:
    """Do something, and return what was posted meanwhile, and what is in the segment then."""
    WORLD["second"].fill(2)
    WORLD["Segment"].fill(1)
    before = posted()
    makes()
    return growth(before), bytes(WORLD["Segment"].read())


def many(made: Made) -> list[Made]:
    return [made.again() for _ in range(THREADS)]


def in_threads(made: Made, fabric: str) -> Iterator[str | None]:
    """Make the call in several threads at once, and say what is wrong."""
    late = LATE in made.row.allowed("none", fabric)
    table.SHORT = SOON if late else LONG
    in_turn, at_once = many(made), many(made)
    made.again().run()  # what a first call makes is there from now on

    def make_at_once() -> None:
        for thread in begin(at_once, Made.run):
            thread.join(HANG)

    wanted = done(lambda: [one.run() for one in in_turn])
    found = done(make_at_once)
    for one in at_once:
        yield one.problem("threads", fabric)
    outcomes = {one.outcome for one in (*in_turn, *at_once)}
    if found != wanted and outcomes == {"returns"}:
        yield f"{made.name}: {THREADS} at once did {found}, and in turn {wanted}"


def of(owner: str, fabric: str) -> list[Made]:
    """The calls of a class that are made; with a share, some of those."""
    mine = [made for made in calls(closing=False) if made.owner == owner]
    return drawn(mine, f"threads {fabric} {owner}")


def all_in_threads(fabric: str) -> Iterator[str | None]:
    """Make each call at once; then those of each class until its handle is closed."""
    owners = dict.fromkeys(made.owner for made in calls(closing=False))
    for owner in owners:
        for made in of(owner, fabric):
            if not made.waits("none", fabric):
                yield from in_threads(made, fabric)
    table.SHORT = SOON
    for owner in [owner for owner in ENDINGS if owner in owners and can_be_closed(owner)]:
        yield from until_closed(owner, fabric)


def until_closed(owner: str, fabric: str) -> Iterator[str | None]:
    """Make each call of a class in several threads, again and again, until its handle is closed."""
    closed = threading.Event()
    mine = [call for call in of(owner, fabric) if call.name != MAKES_ANOTHER]
    made = [one for call in mine for one in many(call)]
    threads = begin(made, lambda one: one.repeat(closed, one.row.allowed("shut", fabric)))
    closed.wait(UNDER_WAY)
    close_handle(owner)
    closed.set()
    for thread in threads:
        thread.join(HANG)
    yield from (one.problem("shut", fabric) for one in made)
