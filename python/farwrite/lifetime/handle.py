"""Handle: the base class of objects that work in one process alone."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn


class Handle:
    """What holds memory, a connection or an operation of this process.

    It cannot be pickled, copied or sent to another process: the error says what to do there
    instead, which a class gives as `elsewhere`. A user's subclass may define ``__reduce__``.
    """

    __slots__ = ()
    _elsewhere: ClassVar[str] = "make one in the other process"

    def _facts(self) -> str:
        """Tell the ``repr`` what a user knows the object by: name, address, size."""
        return ""

    def _state(self) -> str:
        """Tell the ``repr`` how the object has ended, "closed"; nothing while it may be used."""
        return ""

    def __repr__(self) -> str:
        facts, state = self._facts(), self._state()
        name = f"{type(self).__name__} {facts}".rstrip()
        return f"<{name}, {state}>" if state else f"<{name}>"

    def __init_subclass__(cls, *, elsewhere: str = "", **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if elsewhere:
            cls._elsewhere = elsewhere

    def __getstate__(self) -> NoReturn:
        # As Python's own error: libraries that try to pickle an object catch this one.
        raise TypeError(
            f"cannot pickle or copy '{type(self).__name__}' objects, which work only in the"
            f" process that made them; {self._elsewhere}"
        )
