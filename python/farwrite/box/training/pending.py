"""Pending: a change on its way, whose outcome a later call reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farwrite.box import Update


class Pending:
    """At most one change on its way.

    An exception may come after a change was posted and before `begin` holds it. So no change may
    have the memory of an earlier one: each takes other memory of the client, and owns it.
    """

    def __init__(self) -> None:
        self._update: Update | None = None

    def begin(self, update: Update) -> None:
        """Hold `update`, after `finish` of the one before."""
        self._update = update

    def finish(self, timeout: float | None) -> None:
        """Wait until the change is applied, if there is one.

        Raises
        ------
        DeadlineExceeded
            If the timeout passed. The change is still on its way; finish again.
        Error
            If the change failed. It is raised once.
        """
        update = self._update
        if update is None:
            return
        try:
            update.wait(timeout)
        finally:
            if update.done():
                self._update = None
