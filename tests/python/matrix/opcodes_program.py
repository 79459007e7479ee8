"""An exception at every bytecode of every call: opcodes_program.py FABRIC EVERY SEED [PART [STEP]].

Each call is made again and again, and an exception is raised before its first instruction in the
package, then before its second, until it ends by itself. EVERY 10 takes one in ten, which SEED
draws. PART of a name, such as Segment.write, makes those calls alone, and STEP that step alone.
Prints a line for each step that left something behind, or "survivor fine" if there was none.
`test_matrix_opcodes.py` runs it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from interrupted import Steps
from matrix import calls, far_side, program, world
from matrix.calls import WORLD
from matrix.kinds import LATE, own
from matrix.parameters import FUNCTIONS
from matrix.program import Made
from matrix.world import the_world

HUNG = 3000
"""Seconds after which the program shows where it is, and ends."""
LONG = 20.0
"""Seconds for calls that end by themselves, so that a busy machine does not end them."""
SOON = 0.01
"""The limit of calls for which there is nothing, so that many of them take no time."""
SETTLED = 10.0
"""Seconds in which what an exception has dropped is back: a bound, and no measure."""
STAYS = 20
"""Looks after which a count counts as settled."""
CHANGED = ("Segment", "Posted")


def rows() -> Iterator[Made]:
    """The calls of the table that leave their handle open, and those that open and close one."""
    yield from program.calls(closing=False)
    for kind, (_, entries) in FUNCTIONS.items():
        yield from (Made(kind, entry, row) for entry, row in entries.items())
    metrics = own(lambda m: m.Device(metrics="127.0.0.1:0").close())
    yield Made("farwrite", "Device with metrics", metrics)


def held() -> dict[str, int]:
    """Count what a call must give back."""
    device, listed = WORLD["Device"].stats(), WORLD["Client"].list()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "leases of peers": device.leases_held_by_peers,
        "leases": WORLD["Channel"].stats().leases_held,
        "bytes to send": device.send.used,
        "bytes to receive": device.receive.used,
        "attachments": sum(info.attached for info in listed),
        "temporary segments": sum(info.temporary for info in listed),
    }


def descriptors() -> set[tuple[str, str]]:
    """Return the open descriptors, and what each is of."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the folder itself
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


def settled(wanted: dict[str, int]) -> dict[str, int]:
    """Count what is held, once it is as `wanted` or stays."""
    WORLD["TensorSender"].send(np.frombuffer(far_side.END, "float32")).wait(20)
    WORLD["take"](far_side.arrived, "tensor")  # what was sent until now is taken
    give_up = time.monotonic() + SETTLED
    looks: list[dict[str, int]] = []
    while time.monotonic() < give_up:
        gc.collect()
        looks.append(held())
        if looks[-1] == wanted or (len(looks) > STAYS and looks[-1] == looks[-STAYS]):
            break
        time.sleep(0.02)
    return looks[-1]


def posted() -> dict[str, int]:
    """Count what has gone to the peer, and to the box."""
    WORLD["Client"].list()  # answered when earlier changes of this client are applied
    channel, sender = WORLD["Channel"].stats(), WORLD["TensorSender"].stats()
    return {
        "writes": channel.writes,
        "notifications": channel.notifications_sent + channel.messages_sent,
        "tensors": sender.pushed + sender.offered,
        "versions": WORLD["Segment"].version,
        "models": WORLD["Publisher"].version,
    }


def growth(before: dict[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in posted().items()}


class Interrupted:
    """A call of the table, made with an exception at each of its steps."""

    def __init__(self, made: Made, fabric: str) -> None:
        self.name = f"{made.kind}.{made.entry}"
        self._made, self._fabric = made, fabric
        self._late = LATE in made.row.allowed("none")
        self._ends = "FailedPrecondition" in made.row.allowed("killed")
        self._dropped: list[Any] = []
        self.interrupted = 0
        """Exceptions that were raised in the call."""

    def run(self, stop_at: int = 0) -> tuple[Made, int]:
        """Make the call, and return what came of it and its number of steps."""
        made = Made(self._made.kind, self._made.entry, self._made.row)
        calls.SHORT = SOON if self._late else LONG
        signal.setitimer(signal.ITIMER_REAL, program.HANG)
        with Steps(stop_at) as steps:
            made.run()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return made, steps.executed

    def problems(self, every: int, choice: random.Random, only: int) -> Iterator[str]:
        """Interrupt the call, and say what is wrong afterwards."""
        self.run()  # what a first call makes is there from now on
        WORLD["Segment"].fill(1)
        at_first, without = posted(), settled(WORLD.get("held", {}))
        _, count = self.run()
        whole, then = growth(at_first), bytes(WORLD["Segment"].read())
        before = settled(without)
        had = descriptors()
        kept = {name for name in before if before[name] != without[name]}  # such as a tensor sent
        for step in [only] if only else range(1 + choice.randrange(every), count + 1, every):
            for problem in self._interrupted(step, whole, then):
                yield f"{self.name} step {step}: {problem}"
            if self._ends:
                break  # a call that fails ends the group
        else:
            self.run()
        after = WORLD["held"] = settled(before)
        left = (
            {}
            if self._ends
            else {
                name: after[name] - before[name]
                for name in before
                if after[name] > before[name] and name not in kept
            }
        )
        if left:
            yield f"{self.name}: left behind {left}, new: {sorted(descriptors() - had)}"

    def _interrupted(self, step: int, whole: dict[str, int], then: bytes) -> Iterator[str]:
        WORLD["Segment"].fill(1)
        at_first, value = posted(), bytes(WORLD["Segment"].read())
        self._dropped.clear()
        made, executed = self.run(step)
        self.interrupted += executed >= step
        if executed >= step and made.outcome != "raw InterruptError" and not self._dropped:
            yield f"the exception is lost: {made.outcome} ({made.says})"
        twice = {name: n for name, n in growth(at_first).items() if n > max(whole[name], 0)}
        if twice:
            yield f"posted {twice}, and a whole call posts {whole}"
        if self._made.kind in CHANGED and bytes(WORLD["Segment"].read()) not in (value, then):
            yield f"the segment is {WORLD['Segment'].read()}"
        if not (self._late or self._ends):
            made, _ = self.run()
            problem = made.problem("none", self._fabric)
            if problem is not None:
                yield f"the next call: {problem}"

    def dropped(self, report: Any) -> None:
        """Note what was raised where nobody can catch it: in a callback."""
        self._dropped.append(report.exc_type)


def main(fabric: str, every: str, seed: str, part: str = "", step: str = "0") -> int:
    faulthandler.enable()
    program.check(fabric, program.FABRICS, "fabric")
    chosen = [made for made in rows() if part in f"{made.kind}.{made.entry}"]
    chosen = [made for made in chosen if "waits" not in made.row.allowed("none", fabric)]
    if not chosen:
        program.refuse(
            f"no call's name contains '{part}', or it may wait for ever; "
            "tests/python/matrix/calls.py and parameters.py name the calls, as in Segment.write"
        )
    problems = program.Problems()
    interrupted = 0
    faulthandler.dump_traceback_later(HUNG, exit=True)
    signal.signal(signal.SIGALRM, program.interrupt)
    choice = random.Random(int(seed))
    world.SHORT = LONG
    with the_world(fabric) as peer:
        WORLD["take"] = peer.run
        WORLD["process"] = None  # a coroutine runs in this thread, too
        WORLD.update({kind: module for kind, (module, _) in FUNCTIONS.items()})
        for made in chosen:
            call = Interrupted(made, fabric)
            print(call.name, file=sys.stderr, flush=True)
            sys.unraisablehook = call.dropped
            for problem in call.problems(int(every), choice, int(step)):
                found = re.match(re.escape(call.name) + r" step (\d+):", problem)
                problems.add(
                    problem, fabric, "1", seed, call.name, *(found.groups() if found else ())
                )
            interrupted += call.interrupted
        sys.unraisablehook = sys.__unraisablehook__
        WORLD["process"] = os.getpid()
        for name in ("held", "take", *FUNCTIONS):
            WORLD.pop(name, None)
    if step != "0" and not interrupted:
        program.refuse(f"no call of '{part}' has a step {step}; without a step all are made")
    return problems.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
