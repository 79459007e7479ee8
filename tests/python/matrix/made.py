"""One call of the table: how it is made, and whether what came of it is what its row says."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import farwrite as fw
from matrix import calls as table
from matrix.calls import EVERYWHERE, ROWS, WORLD
from matrix.functions import TABLE
from matrix.kinds import CLOSED, SILENT, Row, fact

HANG = 30.0
"""Seconds after which a call counts as one that waits for ever: a bound, and no measure."""
ALLOWANCE = 10.0
"""Seconds that a busy machine may add to the limit of a call."""
PAUSE = 0.02
"""Seconds between two of one call."""
MOST_LATE = 5
"""How often a call may miss its own limit of half a second on a busy machine."""

ENDINGS = (
    "HybridSEASGD", "SEASGD", "AsyncSGD", "BoxGroup", "Termination", "Watch", "Cached", "Lease",
    "Model", "Publisher", "Subscriber", "Event", "Segment", "Client", "Server", "TensorSender",
    "TensorReceiver", "MemoryRegistration", "RegisteredArray", "Channel", "Device",
)  # fmt: skip
"""What can be closed, each before what it belongs to."""
CLOSES = ("close", "release", "detach")
CLOSING = ("unpublish", "free", "abandon", *CLOSES, "__aexit__", "__exit__")
MAKES_ANOTHER = "RegisteredArray.allocate"
"""Belongs to the class, and not to one that was closed."""
LOOKS = ("try_notification", "try_receive")
"""Never block. So one that another thread's call is ahead of may find nothing, nor the end."""

ONLY: set[str] = set()
"""The calls that are made besides those that close, if not all."""


NO_OPERATION = ("use the channel", "finish an operation", "wait: ", "wait to ")
"""What an error calls an operation that it does not know."""


class AlarmError(KeyboardInterrupt):
    """What the signal handler raises where no event loop runs."""


class Made:
    """A call, and what came of it. Its owner is the class or the module that it belongs to."""

    def __init__(self, owner: str, entry: str, row: Row) -> None:
        self.owner, self.entry, self.row = owner, entry, row
        self.name = f"{owner}.{entry}"
        self.outcome, self.says = "waits", ""
        self.earlier: set[tuple[str, str]] = set()
        self.over_its_limit = 0.0
        """Seconds that the longest of these calls took longer than its limit allows."""

    def again(self) -> Made:
        """Return the same call, not yet made."""
        return Made(self.owner, self.entry, self.row)

    def waits(self, fault: str = "none", fabric: str = "shm") -> bool:
        """Whether it may wait until its handle is closed."""
        return "waits" in self.row.allowed(fault, fabric)

    @property
    def leaves(self) -> bool:
        """Whether one call that fails ends the handle for all later ones."""
        return "FailedPrecondition" in self.row.allowed("killed")

    def repeat(self, struck: threading.Event, allowed: tuple[str, ...]) -> None:
        """Make the call until it began after the fault. Keep what came of it earlier."""
        late, looked = 0, float("inf")
        while True:
            last = struck.is_set()
            self.outcome, self.says = "waits", ""
            self.run()
            if last:
                looked = min(looked, time.monotonic())
                found = self.outcome in allowed
                if self.entry in LOOKS and self.outcome == "returns" and not found:
                    again = time.monotonic() < looked + ALLOWANCE
                else:
                    again = self.outcome in SILENT and not found and late < MOST_LATE
                    late += again  # a busy machine
                if not again:
                    return
            else:
                self.earlier.add((self.outcome, self.says))
            time.sleep(PAUSE)

    def run(self, instance: object = None) -> None:
        """Make the call, with the world's object or another in its place."""
        instance = WORLD[self.owner] if instance is None else instance
        limit = self.row.limit.seconds(max(table.SHORT, WORLD["timeout"]))
        began = time.monotonic()
        try:
            self.make(instance)
            self.outcome = "returns"
        except (StopIteration, StopAsyncIteration):
            self.outcome = "ends"
        except fw.Error as error:
            self.outcome, self.says = type(error).__name__, str(error)
        except BaseException as error:
            if type(error) in (AlarmError, KeyboardInterrupt):  # the latter is asyncio's own
                self.outcome = "AlarmError"
            else:
                self.outcome, self.says = f"raw {type(error).__name__}", str(error)
        took = time.monotonic() - began
        self.over_its_limit = max(self.over_its_limit, took - limit)

    def make(self, instance: object) -> None:
        """Make the call, and raise what it raises."""
        if self.row.call is not None:
            self.row.call(instance)
        else:
            value = getattr(instance, self.entry)
            if callable(value):
                value()

    def problem(self, fault: str, fabric: str) -> str | None:
        """Say what is wrong with the outcome, if anything is."""
        allowed = self.row.allowed(fault, fabric)
        if allowed[0] == "waits":  # until its handle was closed
            allowed = (*allowed[1:], "ends", *CLOSED)
        # One that missed its limit may still be under way beside the next, as in several threads.
        before = (*allowed, *self.row.allowed("threads", fabric), *SILENT, "ResourceExhausted")
        came = [(before, *earlier) for earlier in self.earlier]
        for expected, outcome, says in [*came, (allowed, self.outcome, self.says)]:
            if outcome not in expected:
                return f"{self.name}: {outcome} ({says}), not {' or '.join(allowed)}"
            # An error names the operation, the cause, and what to do.
            if says and not (": " in says and "; " in says):
                return f"{self.name}: the error does not say what to do: {says}"
            if says.startswith(NO_OPERATION):
                return f"{self.name}: the error does not name the operation: {says}"
        if self.over_its_limit > ALLOWANCE and not self.waits(fault, fabric):
            over = f"{self.over_its_limit:.1f} s longer than its limit"
            return f"{self.name}: {self.outcome} {over} ({self.row.limit.means})"
        return None


def calls(closing: bool) -> Iterator[Made]:
    """The calls of the table: those that close their handle, in order, or the others."""
    for owner in [*(owner for owner in TABLE if owner not in ENDINGS), *ENDINGS]:
        rows = TABLE[owner]
        if owner in ROWS:
            rows = {**rows, **{name: fact(call) for name, call in EVERYWHERE.items()}}
        entries = [entry for entry in rows if (entry in CLOSING) == closing]
        if closing:
            entries.sort(key=CLOSING.index)
        for entry in entries:
            if closing or not ONLY or f"{owner}.{entry}" in ONLY:
                yield Made(owner, entry, rows[entry])


def start(made: Made, *until: object) -> threading.Thread:
    """Make a call in a thread: once, or as `Made.repeat` does, with its arguments."""
    run = made.repeat if until else made.run
    thread = threading.Thread(target=run, args=until, daemon=True)
    thread.start()
    return thread


def close_handle(owner: str) -> None:
    for name in CLOSES:
        if name in ROWS[owner]:
            with contextlib.suppress(fw.DeadlineExceeded):  # what was sent, and nothing takes
                Made(owner, name, ROWS[owner][name]).make(WORLD[owner])


def can_be_closed(owner: str) -> bool:
    """Whether one handle of the class is closed, and nothing that others belong to."""
    return owner not in PARENTS and bool(ROWS[owner].keys() & set(CLOSES))


PARENTS = ("models", "Client", "Server", "Device")
"""What others belong to. Each is closed before the next one."""
