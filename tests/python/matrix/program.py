"""Every call under one fault after another: program.py FABRIC [during] FAULT... [CALL...]

The calls are made after the fault; with `during`, again and again while it happens. Calls, such as
`Segment.read`, are made instead of all; those that close their handle, such as `Segment.free`, are
always made. Prints a line for each call that did not end as its row says, and how to repeat one of
them; or "survivor fine" when all did and this process has served another peer afterwards.
`test_matrix.py` runs it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import os
import resource
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import farwrite as fw
from matrix import far_side
from matrix.calls import EVERYWHERE, ROWS, WORLD
from matrix.kinds import CLOSED, SILENT, Row, fact
from matrix.world import the_world
from processes import PeerProcess

UNDER_WAY_NOW = "under way: "
"""Begins a line of standard error, the last one of which says what went on at a crash."""

HANG = 30.0
"""Seconds after which a call counts as one that waits for ever: a bound, and no measure."""

UNDER_WAY = 0.3
"""Seconds for which the calls are made before the fault, and the pause between two of one."""
PAUSE = 0.02
MOST_LATE = 5
"""How often a call may miss its own limit of half a second on a busy machine."""

QUIET = 10
"""Looks after which a count counts as settled."""

ENDINGS = (
    "HybridSEASGD", "SEASGD", "AsyncSGD", "BoxGroup", "Termination", "Watch", "Cached", "Lease",
    "Model", "Publisher", "Subscriber", "Event", "Segment", "Client", "Server", "TensorSender",
    "TensorReceiver", "MemoryRegistration", "RegisteredArray", "Channel", "Device",
)  # fmt: skip
"""What can be closed, each before what it belongs to."""
NO_OPERATION = ("use the channel", "finish an operation", "wait: ", "wait to ")
"""What an error calls an operation that it does not know."""
CLOSES = ("close", "release", "detach")
CLOSING = ("unpublish", "free", "abandon", *CLOSES, "__aexit__", "__exit__")
SEED = int(os.environ.get("SEED", "1"))
"""Of random bytes."""
FABRICS = ("shm", "tcp")

ONLY: set[str] = set()
"""The calls that are made besides those that close, if not all."""
MAKES_ANOTHER = ("RegisteredArray", "allocate")
"""Belongs to the class, and not to one that was closed."""
PARENTS = ("models", "Client", "Server", "Device")


def refuse(says: str) -> NoReturn:
    """End the process with status 2: a word of its command line stands for nothing."""
    print(f"{Path(sys.argv[0]).name}: {says}", file=sys.stderr, flush=True)
    sys.exit(2)


def check(word: str, known: Iterable[str], what: str) -> None:
    """End the process with status 2 unless the word is known."""
    listed = list(known)
    if word not in listed:
        refuse(f"'{word}' is no {what}; use one of: {', '.join(listed)}")


def command(name: str, *words: str) -> str:
    """Return the line that runs a program of this folder."""
    start = "PYTHONPATH=tests/python .venv/bin/python tests/python/matrix"
    return f"{start}/{name} {shlex.join(words)}"


def words_in(problem: str) -> list[str]:
    """Return the words of the command that a problem begins with, if it does."""
    start, _, rest = problem.partition(" ")
    return rest.partition(":")[0].split() if start.endswith(".py") else []


class Problems:
    """Prints what is wrong, and at last how to repeat the first of it."""

    def __init__(self) -> None:
        self._repeat: tuple[str, ...] | None = None

    def add(self, problem: str, *repeat: str) -> None:
        """Print a problem. `repeat` are the words of this program that repeat it."""
        print(problem, flush=True)
        self.count(*repeat)

    def count(self, *repeat: str) -> None:
        """Count a problem that is printed already."""
        if self._repeat is None:
            self._repeat = repeat

    @property
    def found(self) -> bool:
        return self._repeat is not None

    def end(self, fine: str = "survivor fine") -> int:
        """Print that all is fine, or how to repeat a problem. Return the exit status."""
        if self._repeat is None:
            print(fine, flush=True)
            return 0
        print(f"repeat one: {command(Path(sys.argv[0]).name, *self._repeat)}", flush=True)
        return 1


class AlarmError(KeyboardInterrupt):
    """What the signal handler raises. An event loop lets it pass, as it does with Ctrl-C."""


class Made:
    """A call, and what came of it."""

    def __init__(self, kind: str, entry: str, row: Row) -> None:
        self.kind, self.entry, self.row = kind, entry, row
        self.outcome, self.says = "waits", ""
        self.earlier: set[tuple[str, str]] = set()

    def repeat(self, struck: threading.Event, allowed: tuple[str, ...]) -> None:
        """Make the call until it began after the fault. Keep what came of it earlier."""
        late = 0
        while True:
            last = struck.is_set()
            self.outcome, self.says = "waits", ""
            self.run()
            if self.outcome in SILENT and self.outcome not in allowed and late < MOST_LATE:
                late += 1  # a busy machine
            elif last:
                return
            else:
                self.earlier.add((self.outcome, self.says))
            time.sleep(PAUSE)

    def run(self, instance: object = None) -> None:
        """Make the call, with the world's object or another in its place."""
        instance = WORLD[self.kind] if instance is None else instance
        try:
            if self.row.call is not None:
                self.row.call(instance)
            else:
                value = getattr(instance, self.entry)
                if callable(value):
                    value()
            self.outcome = "returns"
        except (StopIteration, StopAsyncIteration):
            self.outcome = "ends"
        except AlarmError:
            self.outcome = "AlarmError"
        except fw.Error as error:
            self.outcome, self.says = type(error).__name__, str(error)
        except BaseException as error:
            self.outcome, self.says = f"raw {type(error).__name__}", str(error)

    def problem(self, fault: str, fabric: str) -> str | None:
        """Say what is wrong with the outcome, if anything is."""
        name = f"{self.kind}.{self.entry}"
        allowed = self.row.allowed(fault, fabric)
        if allowed[0] == "waits":  # until its handle was closed
            allowed = (*allowed[1:], "ends", *CLOSED)
        before = (*allowed, *self.row.allowed("none", fabric), *SILENT, "ResourceExhausted")
        came = [(before, *earlier) for earlier in self.earlier]
        for expected, outcome, says in [*came, (allowed, self.outcome, self.says)]:
            if outcome not in expected:
                return f"{name}: {outcome} ({says}), not {' or '.join(allowed)}"
            # An error names the operation, the cause, and what to do.
            if says and not (": " in says and "; " in says):
                return f"{name}: the error does not say what to do: {says}"
            if says.startswith(NO_OPERATION):
                return f"{name}: the error does not name the operation: {says}"
        return None


def calls(closing: bool) -> Iterator[Made]:
    """The calls of the table: those that close their handle, in order, or the others."""
    for kind in [*(kind for kind in ROWS if kind not in ENDINGS), *ENDINGS]:
        rows = {**ROWS[kind], **{name: fact(call) for name, call in EVERYWHERE.items()}}
        entries = [entry for entry in rows if (entry in CLOSING) == closing]
        if closing:
            entries.sort(key=CLOSING.index)
        for entry in entries:
            if closing or not ONLY or f"{kind}.{entry}" in ONLY:
                yield Made(kind, entry, rows[entry])


def start(made: Made, *until: Any) -> threading.Thread:
    """Make a call in a thread: once, or as `Made.repeat` does, with its arguments."""
    run = made.repeat if until else made.run
    thread = threading.Thread(target=run, args=until, daemon=True)
    thread.start()
    return thread


def interrupt(number: int, frame: object) -> None:
    raise AlarmError


def run_interrupted() -> list[Made]:
    """Make each call in this thread, until it ends or SIGALRM interrupts it."""
    signal.signal(signal.SIGALRM, interrupt)
    made = list(calls(closing=False))
    WORLD["process"] = None  # a coroutine runs in this thread, too
    for call in made:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        call.run()
        signal.setitimer(signal.ITIMER_REAL, 0)
    WORLD["process"] = os.getpid()
    return made


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
        if "waits" not in call.row.allowed(fault, fabric):
            thread.join(max(give_up - time.monotonic(), 0))
    for call in calls(closing=True):
        start(call).join(HANG)
        made.append(call)
    for thread in threads:
        thread.join(max(give_up - time.monotonic(), 0))
    return made


def close_handle(kind: str) -> None:
    for name in CLOSES:
        if name in ROWS[kind]:
            with contextlib.suppress(fw.DeadlineExceeded):  # what was sent, and nobody takes
                getattr(WORLD[kind], name)()


def close_each_handle() -> None:
    for kind in ENDINGS:
        close_handle(kind)


def run_below_open_parents() -> list[Made]:
    """Close one handle after another, and make its calls while what it belongs to is open.

    What waits without a limit begins before, and ends with its handle.
    """
    made = []
    early = [call for call in calls(closing=False) if call.row.allowed("none")[0] == "waits"]
    waiting = [start(call) for call in early]
    for kind in ENDINGS:
        if kind in PARENTS or not ROWS[kind].keys() & set(CLOSES):
            continue
        close_handle(kind)
        for call in calls(closing=False):
            if call.kind == kind and (kind, call.entry) != MAKES_ANOTHER:
                start(call).join(HANG)
                made.append(call)
    for thread in waiting:
        thread.join(HANG)
    return made + [call for call in early if call.outcome != "returns"]


def close_parents() -> None:
    for kind in PARENTS:
        WORLD[kind].close()


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


def restart(peer: PeerProcess) -> None:
    """Kill the peer, and let another process listen where it did."""
    kill(peer)
    again = WORLD["stack"].enter_context(PeerProcess(WORLD["link"].endpoint))
    WORLD["link"].accept(HANG)
    again.run(far_side.open_again, WORLD["endpoints"], WORLD["fabric"])


STRIKES: dict[str, Callable[[PeerProcess], object]] = {
    "none": lambda _: None,
    "killed": kill,
    "stopped": lambda peer: peer.stop(),
    "closed": close,
    "restarted": restart,
    "babbling": lambda peer: peer.run(far_side.babble, SEED),
    "shut": lambda _: close_each_handle(),
    "parent": lambda _: close_parents(),
    "descriptors": lambda _: use_up_descriptors(),
    "interrupted": lambda _: None,
}


def close_surely(handle: Any) -> None:
    """Close what a peer may have written to when it was killed, once that peer's end is known."""
    give_up = time.monotonic() + HANG
    while time.monotonic() < give_up:
        with contextlib.suppress(fw.PeerSilent):
            handle.close()
            return
        time.sleep(0.05)


def under(fault: str, fabric: str, during: bool = False) -> list[str]:
    """Say what is wrong with the calls under a fault."""
    # A peer that keeps no rule may have said that it writes: then a close may say so once more.
    quarantined = [fw.PeerSilent] if fault == "babbling" else []
    with contextlib.suppress(*quarantined), the_world(fabric) as peer:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        strike = functools.partial(STRIKES[fault], peer)
        early = {"interrupted": run_interrupted, "shut": run_below_open_parents}.get(fault)
        # What was interrupted works afterwards.
        made = early() if early is not None and not during else []
        problems = [call.problem(fault, fabric) for call in made]
        if not during:
            strike()
        made = run_all(fault, fabric, strike if during else None)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        if fault == "stopped":
            peer.signal(signal.SIGCONT)
        if fault == "babbling":
            peer.kill()
            for kind in PARENTS:
                close_surely(WORLD[kind])
    problems += [call.problem(fault, fabric) for call in made]
    return [problem for problem in problems if problem is not None]


def held() -> tuple[int, int]:
    """Count descriptors and threads, once both stay: memory is released in the background."""
    counts: list[tuple[int, int]] = []
    while len(counts) < QUIET or len(set(counts[-QUIET:])) > 1:
        gc.collect()
        counts.append((len(os.listdir("/proc/self/fd")), threading.active_count()))
        time.sleep(0.05)
    return counts[-1]


def main(fabric: str, *words: str) -> int:
    faulthandler.enable()
    check(fabric, FABRICS, "fabric")
    during = ["during"] if words[:1] == ("during",) else []
    faults = [word for word in words[len(during) :] if word in STRIKES]
    named = [word for word in words[len(during) :] if word not in STRIKES]
    known = {f"{call.kind}.{call.entry}" for closing in (False, True) for call in calls(closing)}
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
        problems.add(f"before: {problem}", fabric, "none", name_in(problem))
    for fault in faults:
        print(f"{UNDER_WAY_NOW}{' '.join([fabric, *during, fault])}", file=sys.stderr, flush=True)
        before = held()
        for problem in under(fault, fabric, bool(during)):
            problems.add(f"{fault}: {problem}", fabric, *during, fault, name_in(problem))
        after = held()
        if after != before:
            left = f"{fault}: descriptors and threads were {before}, and are {after}"
            problems.add(left, fabric, *during, fault, *named)
    for problem in under("none", "shm"):
        problems.add(f"afterwards: {problem}", fabric, *words)
    return problems.end()


def name_in(problem: str) -> str:
    """Return the name of the call that a problem begins with."""
    return problem.partition(":")[0]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
