"""Faults, and what comes of a call under each: the words in which the rows of `calls.py` speak."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from farwrite import errors

FAULTS = {
    "none": "nothing happened",
    "killed": "its peer was killed",
    "stopped": "its peer does not run (SIGSTOP)",
    "restarted": "its peer was killed, and another process listens where it did",
    "babbling": "its peer sends random bytes, and fills shared rings with them",
    "closed": "its peer closed normally",
    "shut": "its own handle was closed",
    "parent": "the device, client or server that it belongs to was closed",
    "descriptors": "this process has no descriptor left",
    "interrupted": "a signal handler raises while the main thread makes it",
    "threads": "four threads make it on the same handle, then four more while one closes that",
    "forked": "it is called in a forked child",
}

FORMS = ("returns", "ends", "waits")
"""What may come of a call that raises nothing: it returns, it ends an iteration, or it waits until
the fault is over or its handle closes."""

Outcome = str | tuple[str, ...]
Call = Callable[[Any], object]
CLOSED = ("Cancelled", "FailedPrecondition")

AT_WORST: dict[str, tuple[str, ...]] = {
    "descriptors": ("ResourceExhausted",),
    "interrupted": ("AlarmError",),
    "threads": (),
}
"""Under these faults a call does as under none, or raises this."""

ERRORS = tuple(
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.Error)
)
"""Of a peer that keeps no rule any of our errors may tell."""

SILENT = ("DeadlineExceeded", "PeerSilent")
"""The call's own limit may come before or after the peer counts as silent."""


class Limit(NamedTuple):
    """What limits the time of a call."""

    means: str
    times: float
    """How often it may wait for the timeout of the call, or of its client."""
    default: float = 0.0
    """The timeout that the call has where the table gives it none."""

    def seconds(self, timeout: float) -> float:
        """Return the longest that a call with this timeout may take."""
        return max(self.times * timeout, self.default)


AT_ONCE = Limit("it does not wait", 0)
TIMEOUT = Limit("its own timeout, or that of its completion or client", 1)
ENDS = Limit("its own timeout, 1 s by default", 1, 1)
UNTIL_CLOSED = Limit("none, because more may come until the handle is closed", math.inf)

RETURNS: dict[str, Outcome] = dict.fromkeys(FAULTS, "returns")
KINDS: dict[str, tuple[dict[str, Outcome], str, Limit]] = {
    "fact": (RETURNS, "a fact of this process, or memory that it has", AT_ONCE),
    "count": ({**RETURNS, "forked": "Forked"}, "what was counted here", AT_ONCE),
    "own": (
        {**RETURNS, "shut": CLOSED, "parent": CLOSED, "forked": "Forked"},
        "what needs this process alone",
        AT_ONCE,
    ),
    "peer": (
        {
            "none": "returns",
            "killed": "PeerDead",
            "stopped": SILENT,
            "closed": "Unavailable",
            "shut": CLOSED,
            "parent": CLOSED,
            "forked": "Forked",
        },
        "what needs the peer to do something",
        TIMEOUT,
    ),
    "ending": (
        {**RETURNS, "stopped": ("returns", *SILENT), "forked": "Forked"},
        "the end of a handle, also for the second time",
        ENDS,
    ),
}

ONE_SIDED = {"shm": "returns", "tcp": SILENT}
"""A stopped peer's memory can be read where it is mapped."""

ENDED = "FailedPrecondition"

VIEW = {
    "none": {"shm": "returns", "tcp": "Unsupported"},
    "killed": {"shm": "PeerDead", "tcp": "Unsupported"},
    "stopped": {"shm": "returns", "tcp": "Unsupported"},
    "closed": {"shm": "Unavailable", "tcp": "Unsupported"},
    "shut": (*CLOSED, "Unsupported"),
    "parent": (*CLOSED, "Unsupported"),
}
"""Only mapped memory can be viewed."""

ALIAS = {
    fault: {
        "shm": ("returns", "Cancelled") if fault in ("shut", "parent") else "returns",
        "tcp": ("Unsupported", "Cancelled"),
    }
    for fault in FAULTS
    if fault != "forked"
}
"""Memory that was mapped stays as long as the object, unless this side closes before an alias."""

ALONE = dict.fromkeys(("shut", "parent", "forked"), "returns")
"""What belongs to no handle works without any."""

NO_ANSWER = ("Unavailable", "DeadlineExceeded")
LATE = "DeadlineExceeded"

STILL_READ = ("returns", "Unavailable")
"""What a peer has lent can be read until its process has ended."""

ITERATION = {
    "none": ("waits", "returns"),
    "stopped": ("waits", "returns", *SILENT),
    "closed": ("ends", "Unavailable"),
    "shut": "ends",
    "parent": "ends",
}
"""A loop waits as long as there may be more. It ends with its handle."""

UNTOLD = {
    "killed": ("returns", "PeerDead"),
    "closed": ("returns", "Unavailable"),
    "parent": ("returns", "Cancelled"),
}
"""The first end says that the others cannot be told of it."""

LOST = {"killed": UNTOLD["killed"], "closed": UNTOLD["closed"]}
"""The end says that a change which was under way is lost."""

LOOK = {"shm": ("returns", *SILENT), "tcp": SILENT}
"""The first look at the server's memory asks for it, and a change may have arrived."""

UNDER_WAY = {
    **UNTOLD,
    "stopped": ("returns", *SILENT),
    "shut": ("returns", *CLOSED),
    "parent": ("returns", *CLOSED),
}
"""It waits for what is under way, if anything is."""

TAKEN = ("AlreadyExists",)
"""Of several publishers of a name, one lives."""

LEFT_OVER = {"shut": (*CLOSED, "AlreadyExists")}
"""Workers that have closed leave their segment, and who comes then must say whether to take it."""

LEFT = {
    "interrupted": ("FailedPrecondition",),
    "stopped": (*SILENT, "FailedPrecondition"),
    "killed": ("PeerDead", "FailedPrecondition"),
    "closed": ("Unavailable", "FailedPrecondition"),
}
"""A member whose call failed has left its group, which the next call says."""

SHORT = 0.5
"""Seconds that a call waits, by its own timeout or by that of its client."""
SOON = 0.05
"""The same where nothing ever comes that the call waits for."""


class Row:
    """How a call is made, and what comes of it under each fault.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    call : callable, optional
        Called with an object of the class. By default the entry is called without arguments, or
        read if it is a property.
    differs : outcome, or mapping of fabric to outcome
        By fault: what comes of this call instead.

    `limit` is what limits its time: that of its kind, unless what comes of it says otherwise.
    """

    def __init__(
        self, kind: str, call: Call | None, differs: Mapping[str, Outcome | Mapping[str, Outcome]]
    ) -> None:
        self.kind, self.call, self._own = kind, call, differs
        outcomes = {**KINDS[kind][0], **differs}
        self.limit = KINDS[kind][2]
        if LATE in outcomes["none"] and self.limit == AT_ONCE:
            self.limit = TIMEOUT
        if "waits" in outcomes["none"]:
            self.limit = UNTIL_CLOSED
        self._outcomes = {**outcomes, "restarted": differs.get("restarted", outcomes["killed"])}

    def allowed(self, fault: str, fabric: str = "shm") -> tuple[str, ...]:
        """Return what may come of the call."""
        if fault == "babbling":
            return (*self.allowed("none", fabric), *FORMS[:2], *ERRORS)
        if fault in AT_WORST:
            worst = (*AT_WORST[fault], *self._own.get(fault, ()))
            return (*self.allowed("none", fabric), *worst)
        outcome = self._outcomes[fault]
        if isinstance(outcome, Mapping):
            outcome = outcome[fabric]
        return (outcome,) if isinstance(outcome, str) else outcome


def fact(call: Call | None = None, **differs: Any) -> Row:
    return Row("fact", call, differs)


def own(call: Call | None = None, **differs: Any) -> Row:
    return Row("own", call, differs)


def peer(call: Call | None = None, **differs: Any) -> Row:
    return Row("peer", call, differs)


def count(call: Call | None = None, **differs: Any) -> Row:
    return Row("count", call, differs)


def ending(call: Call | None = None, **differs: Any) -> Row:
    return Row("ending", call, differs)
