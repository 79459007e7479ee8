"""WeakObjects: objects that a collection does not keep, for any threads."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class WeakObjects(Generic[Thing]):
    """A set of weakly referenced objects. Any thread may call any method at any time.

    `weakref.WeakSet` fails to list its objects while another thread adds or drops one. Here each
    method is one step of a built-in set, which is whole with and without the GIL.
    """

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: set[weakref.ref[Thing]] = set()

    def add(self, thing: Thing) -> None:
        """Add `thing`, once, until nothing else refers to it."""
        self._references.add(weakref.ref(thing, self._references.discard))

    def discard(self, thing: Thing) -> None:
        """Remove `thing` if it is there."""
        self._references.discard(weakref.ref(thing))

    def alive(self) -> list[Thing]:
        """Return the objects that still exist."""
        things = (reference() for reference in list(self._references))
        return [thing for thing in things if thing is not None]
