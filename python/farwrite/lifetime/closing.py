"""Closing: the base class of objects that a ``with`` block closes."""

from __future__ import annotations

import abc
import contextlib
from types import TracebackType
from typing import TypeVar

from farwrite.errors import Error
from farwrite.lifetime.handle import Handle

Self = TypeVar("Self", bound="Closing")


class Closing(Handle, abc.ABC):
    """A context manager: the end of the ``with`` block closes the object."""

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
