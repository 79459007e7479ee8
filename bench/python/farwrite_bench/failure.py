"""A failure while a benchmark runs: it costs the rows that need what failed, and no others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from farwrite.errors import Error, PeerDead

if TYPE_CHECKING:  # the processes of a box end what failed, and show nothing
    from farwrite_bench.report.parts import Row

Members = TypeVar("Members", covariant=True)
_FAILURES = (Error, OSError)
"""What a test raises that fails. Every other exception is an error of the benchmark itself."""


@contextlib.contextmanager
def noting(reasons: dict[str, str], *keys: str) -> Iterator[None]:
    """Note a failure of the block as the reason of each of `keys`, and go on behind the block.

    A key keeps the first reason. The row of a key has it as ``error``, and no figures.
    """
    try:
        yield
    except _FAILURES as error:
        _raise_interrupt(error)
        for key in keys:
            reasons.setdefault(key, str(error) or type(error).__name__)


def attempt(make: Callable[..., Row], *arguments: object) -> Row:
    """Return the row that `make` returns; of a failure, one of its reason as ``error``."""
    made: Row = {}
    failed: dict[str, str] = {}
    with noting(failed, "error"):
        made = make(*arguments)
    return {**made, **failed}


def end_now(stack: contextlib.ExitStack) -> None:
    """End processes after a failure of one of them, without a wait for the others' answers."""
    failure = PeerDead("bench: another process of the same test failed")
    with noting({}):  # the failure has its reason
        stack.__exit__(PeerDead, failure, None)


class Crew(contextlib.ExitStack, Generic[Members]):
    """Processes that are started when they are first needed, and anew after a failure.

    The end of its block ends them.
    """

    def __init__(self, start: Callable[[], contextlib.AbstractContextManager[Members]]) -> None:
        super().__init__()
        self._start = start
        self._members: Members | None = None

    def members(self) -> Members:
        """Return the processes, which are started if none runs."""
        if self._members is None:
            self._members = self.enter_context(self._start())
        return self._members

    def end(self) -> None:
        """End the processes after a failure of any, without a wait for those that still run."""
        self._members = None
        end_now(self)


def _raise_interrupt(error: BaseException) -> None:
    """Raise the interrupt, or the error of the benchmark itself, that the failure came behind.

    What it ends may fail at its end, and such a failure must not keep the command from ending.
    """
    before: BaseException | None = error
    while before is not None:
        if not isinstance(before, Exception):
            raise before
        before = before.__context__
