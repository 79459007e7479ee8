"""Publisher: hands the versions of a model to many readers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt

from farwrite.arguments import choice, seconds, text, whole_number
from farwrite.box.schema import Schema
from farwrite.box.segment import Segment
from farwrite.errors import (
    AlreadyExists,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
)
from farwrite.lifetime.closing import Closing

if TYPE_CHECKING:
    from farwrite import _farwrite
    from farwrite.box.client import Client

MARK = ".publisher"
"""The event ``NAME.publisher`` exists as long as the publisher of NAME lives. Each version is
written only while it exists, so that a publisher whose mark was freed is fenced off."""

Takeover = bool | Literal["force"]

Pack = Callable[[npt.NDArray[np.uint8]], None]


class Target(Protocol):
    """Where the next version of a segment is prepared."""

    def fill(self, pack: Pack, new_epoch: bool, fence: Segment) -> int:
        """Let `pack` fill the bytes, make them the current version, and return that version.

        Raises
        ------
        NotFound
            If `fence` was freed.
        """


class WriteTarget:
    """Registered memory of a client, from which the server reads the new version."""

    def __init__(self, client: Client, segment: Segment) -> None:
        self._client = client
        self._segment = segment

    def fill(self, pack: Pack, new_epoch: bool, fence: Segment) -> int:
        """Fill memory, and let the server read it."""
        # An interrupted call may have left a write under way. That write owns its memory, so this
        # one takes other memory. It is warm: the client keeps what a write has given back.
        memory = self._client.array((self._segment.nbytes,), "uint8").array
        pack(memory)
        return self._segment.write(memory, new_epoch=new_epoch, fence=fence)


class DraftTarget:
    """Memory of a server in this process, which becomes the new version without a copy."""

    def __init__(self, server: _farwrite.BoxServer, client: Client, segment: Segment) -> None:
        self._server = server
        self._key = segment.key
        self._other = WriteTarget(client, segment)

    def fill(self, pack: Pack, new_epoch: bool, fence: Segment) -> int:
        """Fill a buffer that nothing reads, and make it current."""
        try:
            draft = self._server.draft(self._key)
        except ResourceExhausted:
            # Readers hold every other buffer. A write may then change the current one in place.
            return self._other.fill(pack, new_epoch, fence)
        try:
            pack(draft.view())
            return draft.commit(new_epoch, fence.key)
        finally:
            draft.drop()  # else the traceback of an exception would hold it


class Publisher(Closing, elsewhere="open one in the other process: client.publisher(name, like)"):
    """Hands the versions of a model to many readers.

    `Client.publisher` and `Server.publisher` create it. A version becomes visible as a whole:
    readers see the old one or the new one. A publisher that dies while it publishes has published
    nothing. A reader that holds a version never blocks the publisher: each version goes to a buffer
    that nothing reads. When readers hold as many versions as `buffers` allows, further readers wait
    for other versions. The publisher goes on, at the cost of a second copy.

    One publisher at a time has a name. The name is free again when the publisher closes or dies;
    its last version stays in the box. The next publisher of a model that has versions goes on with
    ``takeover=True``: its versions count on, and the first of them begins a new epoch, because what
    it publishes need not go on from the last version.

    The constructor is internal.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        like: Any,
        target: Callable[[Client, Segment], Target],
        *,
        takeover: Takeover,
        buffers: SupportsIndex,
    ) -> None:
        self._schema = Schema.of("publisher", like, step=True)
        self._name = text("publisher", "name", name)
        self._took_over = False  # and has not published since
        takeover = choice("publisher", "takeover", takeover, (True, False, "force"))
        if takeover == "force":
            with contextlib.suppress(NotFound):
                client.attach(name + MARK, 0).free()  # which fences its owner off
        try:
            self._mark = client.create_bytes(name + MARK, 0, buffers=2, temporary=True)
        except AlreadyExists:
            raise AlreadyExists(
                f"publisher: a living publisher has the name '{name}'; close it first, publish"
                " under another name, or give takeover='force' if it was stopped"
            ) from None
        try:
            self._segment = self._open(client, takeover, buffers)
            self._target = target(client, self._segment)
        except BaseException:
            self._give_back()
            raise

    def _open(self, client: Client, takeover: Takeover, buffers: SupportsIndex) -> Segment:
        description = self._schema.to_json()
        nbytes = self._schema.segment_nbytes

        def create() -> Segment:
            return client.create_bytes(self._name, nbytes, description, buffers=buffers)

        with contextlib.suppress(AlreadyExists):
            return create()
        segment = client.attach(self._name, 0)
        earlier = Schema.parse("publisher", self._name, segment.description, segment.nbytes)
        difference = self._schema.difference(earlier)
        if segment.version == 0:  # of a publisher that ended before its first version
            if not difference:
                self._schema = earlier
                return segment
            segment.free()
            return create()
        if not takeover:
            segment.detach()
            raise AlreadyExists(
                f"publisher: the box has '{self._name}' from an earlier publisher; give"
                " takeover=True to go on with its versions, or another name"
            )
        if difference:
            segment.detach()
            raise InvalidArgument(
                f"publisher: the earlier model '{self._name}' differs: {difference}; publish under"
                f" another name, or free it first: client.attach({self._name!r}).free()"
            )
        self._schema = earlier
        self._took_over = True
        return segment

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    @property
    def version(self) -> int:
        """The newest version in the box; 0 before the first `publish`.

        The box counts it, not this publisher: after a takeover it goes on from the earlier
        publisher's, and after a restore from the snapshot's. So it may come a second time, for
        another model, in another `epoch`.
        """
        return self._segment.version

    @property
    def epoch(self) -> int:
        """The epoch of the newest version; see `Segment.epoch`."""
        return self._segment.epoch

    @property
    def nbytes(self) -> int:
        """Bytes of one version."""
        return self._schema.nbytes

    def publish(self, model: Any, *, step: SupportsIndex | None = None) -> int:
        """Make `model` the newest version, which readers can get when the call returns.

        A reader that pins it may have to wait, while other readers hold as many versions as
        `buffers` allows, or the server has no memory for the version that comes next. One that
        copies it, ``latest(copy=True)``, need not.

        Threads may call it at the same time: their models become versions one after the other.

        Parameters
        ----------
        model : dict, list or tuple of arrays
            As `like` of the publisher: the same names, shapes and dtypes. It is copied in the call.
        step : int, optional
            The publisher's own number for the model, of 64 bits: `Model.step` of this version.

        Returns
        -------
        int
            The version, one more than the one before.

        Raises
        ------
        InvalidArgument
            If a name, shape or dtype differs; the message names the tensor. If a step is given, and
            the segment is of an earlier release, which kept none.
        ResourceExhausted
            If the server has no memory for the buffer, or the client has reached its `send_limit`.
        NotFound
            If a client freed the segment.
        FailedPrecondition
            If the publisher is closed, or another one has taken over by force.
        DeadlineExceeded
            If the server has not answered within the timeout given to `connect`.

        Notes
        -----
        If `DeadlineExceeded`, Ctrl-C or another exception ends the call early, `model` is a version
        or will be one, or is not. It never mixes with what is published later.
        """
        if self._closed:
            raise FailedPrecondition(
                f"publish: the publisher of '{self._name}' is closed; open another one"
            )
        number = None
        if step is not None:
            number = whole_number("publish", "step", step, -(2**63), 2**63 - 1)
            if self._schema.step_at is None:
                raise InvalidArgument(
                    f"publish: '{self._name}' is of an earlier release and has no place for a step;"
                    " free the publisher and open another one, or leave the step out"
                )
        try:
            version = self._target.fill(
                lambda data: self._schema.pack("publish", model, data, number),
                self._took_over,
                self._mark,
            )
        except NotFound:
            self._check_mark("publish")
            raise NotFound(
                f"publish: a client freed '{self._name}' with all its versions; close this"
                " publisher, and open another one to publish anew"
            ) from None
        except DeadlineExceeded:
            raise DeadlineExceeded(
                f"publish {self._segment.place}: the box has not answered in time, and the model"
                " may still become a version; check that the server runs and publish again, or give"
                " connect() a longer timeout"
            ) from None
        self._took_over = False  # an interrupted call leaves it: one epoch more does no harm
        return version

    def free(self) -> None:
        """Close, and remove the model from the box. Versions that readers hold stay valid.

        Raises
        ------
        FailedPrecondition
            If the publisher is closed, or another one has taken over by force: the model may be
            another publisher's by now.
        NotFound
            If a client freed the segment. The publisher is closed nevertheless.
        """
        if self._closed:
            raise FailedPrecondition(
                f"free: the publisher of '{self._name}' is closed, and another one may have taken"
                f" over; to remove the model, call client.attach({self._name!r}).free()"
            )
        self._check_mark("free")
        self._closed = True
        try:
            self._segment.free()  # while the name is taken: nothing can have taken over
        finally:
            self._give_back()

    def close(self, timeout: float | None = 1.0) -> None:
        """Give the name back. The last version stays in the box. Closing twice is allowed.

        Parameters
        ----------
        timeout : float or None
            Not used: the connection's timeout bounds the wait for the server.
        """
        seconds("close", timeout)
        self._closed = True
        self._give_back()
        with contextlib.suppress(Error):  # the connection has ended, or this is a forked child
            self._segment.detach()

    def _check_mark(self, operation: str) -> None:
        try:
            _ = self._mark.version
        except NotFound:
            raise FailedPrecondition(
                f"{operation}: another publisher has taken '{self._name}' over by force, so this"
                " one may change it no more; close it"
            ) from None

    def _give_back(self) -> None:
        # Freed, not detached: the server has then answered, and the next publisher finds no mark.
        with contextlib.suppress(Error):  # the connection has ended, and the mark with it
            self._mark.free()

    def _facts(self) -> str:
        return f"of '{self._name}'"
