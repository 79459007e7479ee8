"""Closing: the base class of objects that a ``with`` block closes."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import TypeVar

from farwrite.errors import Error, FailedPrecondition
from farwrite.lifetime.handle import Handle

Self = TypeVar("Self", bound="Closing")


class Closing(Handle, abc.ABC):
    """A context manager: the end of the ``with`` block closes the object."""

    _closed = False  # `close` was called, and not refused
    _done = False  # the core has not refused it

    @contextlib.contextmanager
    def _closing(self) -> Iterator[None]:
        """Mark the object as closed, from before the block on, in which the core closes it.

        The core refuses a close that a handler calls. Then nothing is closed, unless another thread
        closes the object at the same time.
        """
        self._closed = True
        refused = False
        try:
            yield
        except FailedPrecondition:
            refused = True
            raise
        finally:
            self._done = self._done or not refused
            self._closed = self._done

    def _state(self) -> str:
        return "closed" if self._closed else ""

    @abc.abstractmethod
    def close(self, timeout: float | None = 1.0) -> None:
        """Close the object. `timeout` is in seconds; the subclass documents what it bounds."""

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
