"""Every call in a callback or in a signal handler: inside_program.py FABRIC HANDLER...

A call in a callback does what it does elsewhere, or is refused because it would wait for the very
thread that it is in. Each HANDLER is `channel` (that of notifications), `box` (the callback of a
segment's updates) or `signal` (a handler that interrupts the same call). Prints a line for each
call that did otherwise, or "survivor fine". `test_matrix.py` runs it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import sys
import threading
from collections.abc import Callable

import farwrite as fw
from matrix import calls, far_side, program
from matrix.calls import ENDED, WORLD
from matrix.command_line import Problems, check
from matrix.made import HANG, Made
from matrix.made import calls as calls_of_the_table
from matrix.world import the_world
from processes import PeerProcess


def in_a_callback(made: list[Made], call: Callable[[Callable[[object], None]], object]) -> None:
    """Make the calls in the first callback that comes after `call` got it."""
    over = threading.Event()

    def make_all(_: object) -> None:
        if WORLD.get("process") is None:  # made already, or the world has ended
            return
        WORLD["process"] = None  # coroutines run in this thread, too
        for each in made:
            each.run()
        over.set()

    call(make_all)
    over.wait(2 * HANG)


def of_the_channel(peer: PeerProcess, made: list[Made]) -> None:
    def call(callback: Callable[[object], None]) -> None:
        WORLD["Channel"].on_notification(callback)
        peer.run(far_side.notify)

    in_a_callback(made, call)


def of_the_box(_: PeerProcess, made: list[Made]) -> None:
    def call(callback: Callable[[object], None]) -> None:
        WORLD["Segment"].on_update(callback)
        WORLD["Segment"].post.fill(1)

    in_a_callback(made, call)


def in_a_handler(_: PeerProcess, made: list[Made]) -> None:
    """Make each call while the same call is under way in this thread."""
    WORLD["process"] = None
    for each in made:
        outer = each.again()

        def handle(*_: object, each: Made = each) -> None:
            if each.outcome == "waits":
                each.run()

        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 1e-6)
        while each.outcome == "waits":
            outer.run()
        signal.setitimer(signal.ITIMER_REAL, 0)


HANDLERS = {"channel": of_the_channel, "box": of_the_box, "signal": in_a_handler}
OWN = {"channel": "Notifications", "box": "Updates"}
"""What would wait for its own thread. Others may wait in there as long as they like."""


def main(fabric: str = "", *handlers: str) -> int:
    faulthandler.enable()
    check(fabric, program.FABRICS, "fabric")
    for handler in handlers or ("",):
        check(handler, HANDLERS, "handler")
    calls.SHORT = 0.05
    problems = Problems()
    for handler in handlers:
        with the_world(fabric) as peer:
            made = [
                call
                for call in calls_of_the_table(closing=False)
                if call.owner == OWN.get(handler) or not call.waits("none", fabric)
            ]
            HANDLERS[handler](peer, made)
            for call in made:
                allowed = {*call.row.allowed("none", fabric), ENDED} - {"waits"}
                if call.outcome not in allowed:
                    says = f"{handler}: {call.name}: {call.outcome} ({call.says})"
                    problems.add(says, fabric, handler)
            with contextlib.suppress(fw.Error):
                WORLD["Channel"].on_notification(None)
        for problem in program.under("none", fabric):
            problems.add(f"after {handler}: {problem}", fabric, handler)
    return problems.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
