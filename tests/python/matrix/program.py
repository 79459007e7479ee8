"""Every call under one fault after another: program.py FABRIC [during] FAULT... [CALL...]

The calls are made after the fault; with `during`, again and again while it happens. Calls, such as
`Segment.read`, are made instead of all; those that close their handle, such as `Segment.free`, are
always made. Prints a line for each call that did not end as its row says, and how to repeat one of
them; or "survivor fine" when all did and this process has served another peer afterwards. With the
fault `threads`, TEST_SHARE=5 makes at most five calls of each class, and `babbling` draws its bytes
by TEST_SEED.
`test_matrix.py` runs it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import farwrite as fw
import held
from matrix import at_once, command_line, counters, far_side, world
from matrix import calls as table
from matrix.calls import WORLD
from matrix.command_line import Problems, check, refuse, under_way
from matrix.made import (
    ENDINGS,
    HANG,
    MAKES_ANOTHER,
    ONLY,
    PARENTS,
    AlarmError,
    Made,
    calls,
    can_be_closed,
    close_handle,
    start,
)
from matrix.world import the_world
from processes import PeerProcess

UNDER_WAY = 0.3
"""Seconds for which the calls are made before the fault."""
FABRICS = ("shm", "tcp")
KEEP = ("Device.serve_metrics", "Server.serve_metrics")
"""What they start lives as long as the handle."""
LIMITS = resource.getrlimit(resource.RLIMIT_NOFILE)


def interrupt(number: int, frame: FrameType | None) -> None:
    of_event_loop = signal.getsignal(signal.SIGINT)
    if callable(of_event_loop) and of_event_loop is not signal.default_int_handler:
        # Cancels the task: an exception here and now may lose the step of a task for ever.
        of_event_loop(number, frame)
        return
    raise AlarmError


def run_interrupted() -> list[Made]:
    """Make each call in this thread, until it ends or SIGALRM interrupts it."""
    return interrupt_each(list(calls(closing=False)))


def interrupt_each(made: list[Made]) -> list[Made]:
    signal.signal(signal.SIGALRM, interrupt)
    WORLD["process"] = None  # a coroutine runs in this thread, too
    for call in made:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            call.run()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except AlarmError:  # beside the call, which has begun late or has just ended
            if call.outcome == "waits":
                call.outcome = "AlarmError"
    WORLD["process"] = os.getpid()
    return made


def that_keep_nothing(fault: str, fabric: str) -> list[Made]:
    """The calls that end by themselves, and then need nothing more."""
    ends = [call for call in calls(closing=False) if not call.waits(fault, fabric)]
    return [call for call in ends if call.name not in KEEP and not call.leaves]


def make_each(made: list[Made]) -> None:
    """Make each call in a thread of its own."""
    give_up = time.monotonic() + HANG
    for thread in [start(call) for call in made]:
        thread.join(max(give_up - time.monotonic(), 0))


def run_all(fault: str, fabric: str, strike: Callable[[], object] | None = None) -> list[Made]:
    """Make each call in a thread of its own; at last those that close, one after another.

    With `strike`, they are made again and again until it has returned. What may wait until its
    handle closes has ended when this returns, or counts as waiting.
    """
    struck = threading.Event()
    if strike is None:
        struck.set()
    made = list(calls(closing=False))
    threads = [start(call, struck, call.row.allowed(fault, fabric)) for call in made]
    if strike is not None:
        time.sleep(UNDER_WAY)
        strike()
        struck.set()
    give_up = time.monotonic() + HANG
    for call, thread in zip(made, threads, strict=True):
        if not call.waits(fault, fabric):
            thread.join(max(give_up - time.monotonic(), 0))
    for call in calls(closing=True):
        start(call).join(HANG)
        made.append(call)
    for thread in threads:
        thread.join(max(give_up - time.monotonic(), 0))
    return made


def close_each_handle() -> None:
    for owner in ENDINGS:
        close_handle(owner)


def run_below_open_parents() -> list[Made]:
    """Close one handle after another, and make its calls while what it belongs to is open.

    What waits without a limit begins before, and ends with its handle.
    """
    made = []
    early = [call for call in calls(closing=False) if call.row.allowed("none")[0] == "waits"]
    waiting = [start(call) for call in early]
    for owner in filter(can_be_closed, ENDINGS):
        close_handle(owner)
        for call in calls(closing=False):
            if call.owner == owner and call.name != MAKES_ANOTHER:
                start(call).join(HANG)
                made.append(call)
    for thread in waiting:
        thread.join(HANG)
    return made + [call for call in early if call.outcome != "returns"]


def close_parents() -> None:
    for owner in PARENTS:
        WORLD[owner].close()


def use_up_descriptors() -> None:
    lowest = os.dup(0)  # the first that is free
    os.close(lowest)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, most))


def gone(error: type[fw.Error]) -> None:
    """Wait until the peer's end is known: mapped memory can be read until then."""
    channels = (WORLD["Channel"], WORLD["near_tensors"])
    uses = [lambda channel=channel: channel.flush().wait(HANG) for channel in channels]
    uses += [lambda o=WORLD[name]: o.version for name in ("Segment", "Subscriber")]
    for use in [*uses, WORLD["Client"].list, WORLD["models"].list]:
        give_up = time.monotonic() + HANG
        with contextlib.suppress(error):
            while time.monotonic() < give_up:
                use()
                time.sleep(0.01)
            raise AssertionError("the peer's end is not known")
    give_up = time.monotonic() + HANG
    while not isinstance(WORLD["told"][-1], error):
        assert time.monotonic() < give_up, "on_update was not told of the end"
        time.sleep(0.01)


def kill(peer: PeerProcess) -> None:
    peer.kill()
    gone(fw.PeerDead)


def close(peer: PeerProcess) -> None:
    peer.run(far_side.close_all)
    gone(fw.Unavailable)


def keep_ports() -> None:
    """Keep the ports at which the peer listened: another program would answer there."""
    for endpoint in WORLD["endpoints"].values():
        host, _, port = endpoint.rpartition(":")
        kept = WORLD["stack"].enter_context(socket.socket())
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # taken already
            kept.bind((host, int(port)))


def stop_amid_a_change(peer: PeerProcess) -> None:
    """Stop the peer, whose client is in the middle of a change of this process' box."""
    peer.run(far_side.begin_change)
    peer.stop()


def restart(peer: PeerProcess) -> None:
    """Kill the peer, and let another process listen where it did."""
    kill(peer)
    again = WORLD["stack"].enter_context(PeerProcess(WORLD["link"].endpoint))
    WORLD["link"].accept(HANG)
    again.run(far_side.open_again, WORLD["endpoints"], WORLD["fabric"])


STRIKES: dict[str, Callable[[PeerProcess], object]] = {
    "none": lambda _: None,
    "killed": lambda peer: (kill(peer), keep_ports()),
    "stopped": stop_amid_a_change,
    "closed": lambda peer: (close(peer), keep_ports()),
    "restarted": restart,
    "babbling": lambda peer: peer.run(far_side.babble, command_line.SEED),
    "shut": lambda _: close_each_handle(),
    "parent": lambda _: close_parents(),
    "descriptors": lambda _: use_up_descriptors(),
    "interrupted": lambda _: None,
    "threads": lambda _: None,
}


UNDONE: dict[str, Callable[[PeerProcess], object]] = {
    "none": lambda _: None,
    "stopped": lambda peer: peer.signal(signal.SIGCONT),
    "descriptors": lambda _: resource.setrlimit(resource.RLIMIT_NOFILE, LIMITS),
    "interrupted": lambda _: None,
}
"""How a world lives on after the fault: then its calls must have given everything back."""


def close_surely(handle: Any) -> None:
    """Close what a peer may have written to when it was killed, once that peer's end is known."""
    give_up = time.monotonic() + HANG
    while time.monotonic() < give_up:
        with contextlib.suppress(fw.PeerSilent):
            handle.close()
            return
        time.sleep(0.05)


def not_given_back_by_calls(fault: str, fabric: str, peer: PeerProcess) -> str:
    """Make the calls under a fault, end it, and say of what more is kept than before."""
    make_each(that_keep_nothing("none", fabric))  # what a first call makes is there from now on
    before = counters.settled()
    # A change that is held keeps its memory.
    peer.stop() if fault == "stopped" else STRIKES[fault](peer)
    (interrupt_each if fault == "interrupted" else make_each)(that_keep_nothing(fault, fabric))
    UNDONE[fault](peer)
    return held.more(before, counters.settled(before, held.BOUND))


def in_threads(fabric: str) -> list[str]:
    """Make the calls in several threads at once, with a peer that is well."""
    short, world.SHORT = table.SHORT, at_once.LONG
    try:
        with the_world(fabric):
            return [problem for problem in at_once.all_in_threads(fabric) if problem is not None]
    finally:
        table.SHORT = world.SHORT = short


def under(fault: str, fabric: str, during: bool = False, counting: bool = False) -> list[str]:
    """Say what is wrong with the calls under a fault; with `counting`, what is not given back."""
    if fault == "threads":
        return in_threads(fabric)
    problems: list[str | None] = []
    # A peer that keeps no rule may have said that it writes: then a close may say so once more.
    quarantined = [fw.PeerSilent] if fault == "babbling" else []
    with contextlib.suppress(*quarantined), the_world(fabric) as peer:
        if counting and (left := not_given_back_by_calls(fault, fabric, peer)):
            problems.append(f"after all calls, in a world that lives on: {left}")
        strike = functools.partial(STRIKES[fault], peer)
        early = {"interrupted": run_interrupted, "shut": run_below_open_parents}.get(fault)
        # What was interrupted works afterwards.
        made = early() if early is not None and not during else []
        problems += [call.problem(fault, fabric) for call in made]
        if not during:
            strike()
        made = run_all(fault, fabric, strike if during else None)
        if fault in UNDONE:
            UNDONE[fault](peer)
        if fault == "babbling":
            peer.kill()
            for owner in PARENTS:
                close_surely(WORLD[owner])
    problems += [call.problem(fault, fabric) for call in made]
    return [problem for problem in problems if problem is not None]


def main(fabric: str = "", *words: str) -> int:
    faulthandler.enable()
    check(fabric, FABRICS, "fabric")
    during = ["during"] if words[:1] == ("during",) else []
    faults = [word for word in words[len(during) :] if word in STRIKES]
    named = [word for word in words[len(during) :] if word not in STRIKES]
    known = {call.name for closing in (False, True) for call in calls(closing)}
    for word in named:
        if word not in known:
            refuse(
                f"'{word}' is neither a fault ({', '.join(STRIKES)}) nor a call; "
                "tests/python/matrix/calls.py names the calls, as in Segment.read"
            )
    if not faults:
        refuse(f"no word is a fault; name one of: {', '.join(STRIKES)}")
    ONLY.update(named)
    problems = Problems()
    # What a process opens once is open from now on.
    for problem in under("none", fabric):
        problems.add(f"before: {problem}", fabric, "none", *call_in(problem, known))
    for fault in faults:
        under_way(fabric, *during, fault)
        before = held.settled()
        try:
            found = under(fault, fabric, bool(during), fault in UNDONE and not during)
        except Exception as error:  # of this program: what the line repeats is known all the same
            traceback.print_exc()
            found = [f"{type(error).__name__}: {error}"]
        for problem in found:
            repeat = call_in(problem, known) or named
            problems.add(f"{fault}: {problem}", fabric, *during, fault, *repeat)
        if left := held.not_given_back(before):
            problems.add(f"{fault}: {left}", fabric, *during, fault, *named)
    for problem in under("none", "shm"):
        problems.add(f"afterwards: {problem}", fabric, *words)
    return problems.end()


def call_in(problem: str, known: set[str]) -> set[str]:
    """Return the name of the call that a problem begins with, if it does."""
    return {problem.partition(":")[0]} & known


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
