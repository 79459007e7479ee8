"""Every call in a forked child: forked_program.py FABRIC.

Prints a line for each call that did not end as its row says, or "parent fine" when all did and the
parent has made all of them afterwards. `test_matrix.py` runs it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import sys
import time

import farwrite as fw
from matrix import far_side, program
from matrix.calls import ROWS, WORLD
from matrix.command_line import Problems, check
from matrix.made import Made, calls
from matrix.world import the_world

HUNG = 255
SAID = 254
"""The exit status of a child that has printed what is wrong."""


def end_of(pid: int) -> int:
    """The exit status of a child, less 256 times its signal; HUNG after a while."""
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return HUNG


def in_a_child(made: Made, fabric: str, after_another: bool, problems: Problems) -> None:
    """Make the call in a forked child, which says what is wrong with it."""
    pid = os.fork()
    if pid == 0:
        if after_another:
            for other in (WORLD["Client"].list, WORLD["Device"].accept, WORLD["Channel"].flush):
                with contextlib.suppress(fw.Forked):
                    other()
        made.run()
        problem = made.problem("forked", fabric)
        if problem is not None:
            print(f"{problem}{' after another call' if after_another else ''}", flush=True)
        os._exit(0 if problem is None else SAID)
    status = end_of(pid)
    if status == SAID:
        problems.count(fabric)
    elif status != 0:
        ended = "hung" if status == HUNG else f"ended with {status}"
        problems.add(f"{made.name}: {ended}", fabric)


def sockets() -> set[str]:
    """The sockets of this process that may be Farwrite's: asyncio has pairs of streams."""
    found = set()
    for descriptor, what in far_side.descriptors().items():
        if what.startswith("socket:"):
            with socket.socket(fileno=os.dup(descriptor)) as end:
                if end.family != socket.AF_UNIX or end.type == socket.SOCK_SEQPACKET:
                    found.add(what)
    return found


def hold_no_sockets(before: set[str], fabric: str, problems: Problems) -> None:
    """Look for sockets in a child: its parent's peers would not learn of the parent's end."""
    here = sockets() - before
    pid = os.fork()
    if pid == 0:
        if here & sockets():
            print(f"a child holds {len(here & sockets())} sockets of its parent", flush=True)
            os._exit(SAID)
        os._exit(0)
    status = end_of(pid) if here else HUNG
    if status == SAID:
        problems.count(fabric)
    elif status != 0:
        problems.add("a child could not look for sockets", fabric)


def end_as_a_program_does(fabric: str, problems: Problems) -> None:
    """Drop each object, and all of them, in children that run destructors and exit handlers."""
    for name in [*ROWS, "everything"]:
        pid = os.fork()
        if pid == 0:
            if name == "everything":
                WORLD.clear()
            else:
                del WORLD[name]
            sys.exit(0)
        status = end_of(pid)
        if status != 0:
            problems.add(f"the end of {name}: {status}", fabric)


def main(fabric: str = "") -> int:
    faulthandler.enable()
    check(fabric, program.FABRICS, "fabric")
    problems = Problems()
    before = sockets()
    with the_world(fabric):
        hold_no_sockets(before, fabric, problems)
        for closing in (False, True):
            for made in calls(closing):
                for after_another in (False, True):
                    in_a_child(made, fabric, after_another, problems)
        end_as_a_program_does(fabric, problems)
        for made in program.run_all("none", fabric):
            problem = made.problem("none", fabric)
            if problem is not None:
                problems.add(f"the parent afterwards: {problem}", fabric)
    return problems.end("parent fine")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
