"""Claims: names in the box that are taken as long as their owner lives."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from farwrite.arguments import flag, text
from farwrite.errors import AlreadyExists, DeadlineExceeded, Error, InvalidArgument, NotFound
from farwrite.long_wait import LongWait

if TYPE_CHECKING:
    from farwrite.box import Client, Segment

GRACE_S = 1.0
"""How long a taken claim is tried again: a server may notice the end of a process a little later
than those who start it again."""
TURN_S = 0.02
"""Between two looks at something that the server does not report."""


def checked_client(operation: str, client: Client) -> Client:
    """Check that a caller's `client` is one, or an object with its methods."""
    if not all(callable(getattr(client, name, None)) for name in ("create", "attach", "array")):
        raise InvalidArgument(
            f"{operation}: client is {type(client).__name__} instead of Client; connect to the box"
        )
    return client


def claim(create: Callable[[], Segment]) -> Segment:
    """Take a name until `give_back`, or until the connection or this process has ended.

    `create` makes a temporary segment of that name.

    Raises
    ------
    AlreadyExists
        If a living process has it.
    """
    end = time.monotonic() + GRACE_S
    while True:
        try:
            return create()
        except AlreadyExists:
            if time.monotonic() >= end:
                raise
        time.sleep(TURN_S)


def give_back(claimed: Segment) -> None:
    """End a claim. When the call returns, another process can have the name."""
    with contextlib.suppress(Error):  # the connection has ended, and the claim with it
        claimed.free()


class Workers:
    """The living workers of one training: they agree on what they start from.

    The event NAME.workers exists as long as one of them lives. The first worker creates it,
    prepares the segments, and counts it up; the others wait for that. Segments that the first one
    finds are those of workers that have all ended: it goes on with them only if it was told to.

    Parameters
    ----------
    operation : str
        What error sentences name.
    client : Client
        The worker's connection to the box.
    name : str
        The training.
    takeover : bool
        Whether to go on with the segments of workers that have all ended.
    timeout : float or None
        Seconds to wait for the first worker; None waits for ever.

    Raises
    ------
    DeadlineExceeded
        If the first worker did not prepare the segments in time.
    """

    def __init__(
        self, operation: str, client: Client, name: str, takeover: bool, timeout: float | None
    ) -> None:
        self._operation = operation
        self._client = client
        self._takeover = flag(operation, "takeover", takeover)
        text(operation, "name", name)
        wait = LongWait(timeout)
        mark = f"{name}.workers"
        while True:
            with contextlib.suppress(AlreadyExists):
                self._mark = client.create_bytes(mark, 0, buffers=2, temporary=True)
                self._preparing = True
                return
            with contextlib.suppress(NotFound):  # ended or failed meanwhile: the next turn is first
                self._mark = client.attach(mark, 0)
                self._preparing = False
                try:
                    wait.call(
                        lambda left: self._mark.wait(1, left),
                        f"{operation}: the worker that started first has not set '{mark}', as it"
                        " does once the weights are prepared; look whether it lives",
                    )
                    return
                except DeadlineExceeded:
                    self._mark.detach()  # not free: the first worker may live
                    raise DeadlineExceeded(
                        f"{operation}: the worker that started first did not prepare '{name}'"
                        f" within {timeout} s; if it lives, let it go on or end it, with which"
                        f" '{mark}' goes, and start this worker again"
                    ) from None

    @property
    def preparing(self) -> bool:
        """Whether this is the first worker, and has not called `begin`."""
        return self._preparing

    def open(self, name: str, create: Callable[[], Segment]) -> tuple[Segment, bool]:
        """Attach a segment of the training; return it, and whether its contents are to be set.

        The first worker creates it with `create`.

        Raises
        ------
        AlreadyExists
            If it is left from workers that have all ended, and `takeover` is False.
        NotFound
            If a client has freed it, although workers live.
        """
        if not self._preparing:
            return self._client.attach(name, 0), False
        with contextlib.suppress(AlreadyExists):
            return create(), True
        segment = self._client.attach(name, 0)
        unwritten = segment.version == 0  # its creator has ended before its first write
        if not (self._takeover or unwritten):
            segment.detach()
            raise AlreadyExists(
                f"{self._operation}: the box has '{name}' from workers that have all ended; give"
                " takeover=True to go on from what they left, free the segment to start anew, or"
                " choose another name"
            )
        return segment, unwritten

    def begin(self) -> None:
        """Let the others go on: the segments are prepared."""
        if self._preparing:
            self._mark.signal()
            self._preparing = False

    def leave(self) -> None:
        """Count no longer as a worker."""
        if self._preparing:
            give_back(self._mark)  # one that waits becomes the first
        else:
            self._mark.detach()
