"""A failure while a benchmark runs: it costs the rows that need what failed, and no others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from farwrite.errors import Error

FAILURES = (Error, OSError)
"""What a test raises that fails. Every other exception is an error of the benchmark itself."""


@contextlib.contextmanager
def noting(reasons: dict[str, str], *keys: str) -> Iterator[None]:
    """Note a failure of the block as the reason of each of `keys`, and go on behind the block.

    A key keeps the first reason. The row of a key has it as ``error``, and no figures.
    """
    try:
        yield
    except FAILURES as error:
        _raise_interrupt(error)
        for key in keys:
            reasons.setdefault(key, str(error) or type(error).__name__)


def _raise_interrupt(error: BaseException) -> None:
    """Raise the interrupt that the error came behind: what an interrupt ends may fail at its end.

    Such a failure must not keep the command from ending.
    """
    before: BaseException | None = error
    while before is not None:
        if isinstance(before, KeyboardInterrupt):
            raise before
        before = before.__context__
