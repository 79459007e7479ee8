"""Closing: the ``with`` block of whatever has a ``close``."""

from __future__ import annotations

import abc
import contextlib
from types import TracebackType
from typing import TypeVar

from farwrite.errors import Error

Self = TypeVar("Self", bound="Closing")


class Closing(abc.ABC):
    """A context manager that closes at the end of its block."""

    @abc.abstractmethod
    def close(self, timeout: float | None = 1.0) -> None:
        """Close it. See the subclass for what `timeout`, in seconds, bounds."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # An error under way says more than a peer that did not settle because of it.
        with contextlib.suppress(*([Error] if kind is not None else [])):
            self.close()
