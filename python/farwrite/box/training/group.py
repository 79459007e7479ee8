"""BoxGroup: all-reduce and broadcast among the members of a group, over segments of the box."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from farwrite.arguments import seconds, shown, text, whole_number
from farwrite.box.training.claims import checked_client
from farwrite.box.training.counters import MOST_WORKERS
from farwrite.box.training.members import ROOT, Members, read_keys
from farwrite.box.training.pending import Pending
from farwrite.box.training.shapes import Arrays, Flat, Shapes, as_numpy_arrays
from farwrite.errors import DeadlineExceeded, Error, FailedPrecondition, InvalidArgument, NotFound
from farwrite.lifetime.closing import Closing

if TYPE_CHECKING:
    from farwrite.box import Client, Segment

_TURNS = ("even", "odd")
_PARTS = (*_TURNS, "root", "answer", "ready")
_LOOK_S = 0.5
"""Between two looks at who lives, of a member that waits for others."""


class BoxGroup(Closing):
    """Members that average their arrays, and take over those of the root.

    All members make the same calls in the same order. The constructor returns when all members have
    claimed their ranks and agree on size and model. They then share segments that no earlier group
    has used: a process that is started again never gets the data of an earlier group.

    Two segments hold the sums, in turn: each member adds its share to one of them. When all have
    added, the segment before has been read by all, and the root clears it.

    A call succeeds in a member when all shares are there (`all_reduce`), when the root's arrays are
    (`broadcast`), or in the root when they are written. It may therefore succeed in one member and
    fail in another, or succeed although a member has died after it gave its share. The next call
    fails then. No check could exclude this, because a member can end right after it. The members in
    which a call succeeds all get the same bytes.

    A call that fails, other than for its arguments, ends the group: the members' later calls fail,
    also those that wait. Close the object, and start all members again. The box frees the segments
    when the members have closed or died; the name is then free.

    A context manager. Use each object in one thread.

    Parameters
    ----------
    client : Client
        The member's connection to the box.
    name : str
        The segments are `name`.RANK of the living members, and `name`/GENERATION/even, /odd, /root,
        /answer and /ready.
    arrays : sequence or dict of ndarray
        The tensors that every later call has: of float64, float32, float16 or bfloat16. PyTorch's
        in the CPU's memory are changed where they are: ``[p.grad for p in net.parameters()]``.
        Those of bfloat16 need the package ml_dtypes.
    rank : int
        This member's number, from 0 to `size` - 1. Member 0 is the root.
    size : int
        How many members there are.
    timeout : float or None
        Seconds that the group may take to form, and that a call waits for the other members; None
        waits for ever.

    Raises
    ------
    InvalidArgument
        If a value is out of range, or a member has another size or model. The message names the
        tensor.
    AlreadyExists
        If a living process is that member.
    FailedPrecondition
        If another member found that the members do not agree, or a member has left.
    DeadlineExceeded
        If not all members started in time, or one is still in an earlier group.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        arrays: Arrays,
        rank: int,
        size: int,
        *,
        timeout: float | None = 30.0,
    ) -> None:
        self._size = whole_number("BoxGroup", "size", size, 1, MOST_WORKERS)
        self._rank = whole_number("BoxGroup", "rank", rank, 0, self._size - 1)
        self._name = text("BoxGroup", "name", name)
        checked_client("BoxGroup", client)
        self._timeout = seconds("BoxGroup", timeout)
        self._shapes = Shapes("BoxGroup", as_numpy_arrays("BoxGroup", arrays))
        self._flat: Flat = client.array((self._shapes.size,), self._shapes.dtype).array
        self._rounds = 0
        self._broadcasts = 0
        self._agreements = 0
        self._pending = Pending()  # reads self._flat, which a failed call leaves to it
        self._clearing = Pending()
        self._ended = ""
        with contextlib.ExitStack() as attached:
            self._members = Members(
                client, name, self._shapes, self._rank, self._size, self._timeout
            )
            attached.callback(self._members.leave)
            root = self._rank == ROOT
            segments = self._begin(client) if root else self._join(client)
            for segment in segments:
                attached.callback(segment.detach)
            # Each member but the root counts `ready` up: it has joined, it has read what the root
            # wrote.
            *self._sums, self._root, self._answer, self._ready = segments
            self._keys = read_keys(self._ready, self._size)
            if root:
                self._wait("BoxGroup", self._ready, self._size - 1)
            else:
                self._ready.signal()
            self._attached = attached.pop_all()

    def _begin(self, client: Client) -> list[Segment]:
        keys = self._members.gather()
        path = f"{self._name}/{self._members.key:016x}"
        shape, dtype = (self._shapes.size,), self._shapes.dtype
        segments = [
            client.create(f"{path}/{part}", shape, dtype, temporary=True)
            for part in (*_TURNS, "root")
        ]
        segments.append(client.create(f"{path}/answer", (1,), np.int64, temporary=True))
        told = json.dumps({"keys": keys})
        segments.append(client.create_bytes(f"{path}/ready", 0, told, buffers=2, temporary=True))
        self._members.invite(keys, path)
        return segments

    def _join(self, client: Client) -> list[Segment]:
        path = self._members.invited()
        try:
            return [client.attach(f"{path}/{part}", 0) for part in _PARTS]
        except NotFound:
            raise FailedPrecondition(
                f"BoxGroup: the root of '{self._name}' left while the group formed; start all"
                " members again"
            ) from None

    @property
    def rank(self) -> int:
        """The number of this member."""
        return self._rank

    @property
    def size(self) -> int:
        """How many members there are."""
        return self._size

    def all_reduce(self, arrays: Arrays) -> None:
        """Set the arrays of every member to the average over all members.

        Every member gets the same bytes.

        Raises
        ------
        InvalidArgument
            If `arrays` differ in number, name, shape or dtype from those of the constructor. The
            group goes on.
        DeadlineExceeded
            If not all members made the call in time.
        FailedPrecondition
            If a member has left, or an earlier call has failed.
        Error
            If the box cannot be reached.
        """
        arrays = as_numpy_arrays("BoxGroup.all_reduce", arrays)
        with self._call("all_reduce", arrays):
            use, turn = divmod(self._rounds, len(_TURNS))
            sums = self._sums[turn]
            cleared = use * (self._size + 1)  # each use: an addition of each member, the clearing
            self._wait("all_reduce", sums, cleared)
            self._shapes.gather(arrays, self._flat)
            self._pending.begin(sums.post.accumulate(self._flat, 1 / self._size))
            self._pending.finish(self._timeout)
            self._wait("all_reduce", sums, cleared + self._size)
            if self._rank == ROOT and self._rounds > 0:
                self._clearing.finish(self._timeout)
                self._clearing.begin(self._sums[1 - turn].post.fill(0))
            sums.read(self._flat, timeout=self._timeout)
            self._shapes.scatter(self._flat, arrays)
            self._rounds += 1

    def broadcast(self, arrays: Arrays) -> None:
        """Set the arrays of every member to those of the root.

        The root waits until all members have the arrays of the broadcast before.

        Raises
        ------
        InvalidArgument, DeadlineExceeded, FailedPrecondition, Error
            As `all_reduce`.
        """
        arrays = as_numpy_arrays("BoxGroup.broadcast", arrays)
        with self._call("broadcast", arrays):
            if self._rank == ROOT:
                self._wait("broadcast", self._ready, self._all_have_read())
                self._shapes.gather(arrays, self._flat)
                self._pending.begin(self._root.post.write(self._flat))
                self._pending.finish(self._timeout)
            else:
                self._wait("broadcast", self._root, self._broadcasts + 1)
                self._root.read(self._flat, timeout=self._timeout)
                self._ready.post.signal()
                self._shapes.scatter(self._flat, arrays)
            self._broadcasts += 1

    def agree(self, answer: bool) -> bool:
        """Return the root's answer in every member.

        Members that each ask something that changes meanwhile, such as `Termination.advance`, may
        get different answers. After this call all do the same: ``if
        group.agree(termination.advance(worker)): break``.

        Parameters
        ----------
        answer : bool
            This member's answer, which counts in the root. Its truth is what ``bool()`` says.

        Raises
        ------
        InvalidArgument
            If `answer` has no truth, as an array with several elements. The group goes on.
        DeadlineExceeded, FailedPrecondition, Error
            As `all_reduce`.
        """
        try:
            given = bool(answer)
        except (TypeError, ValueError) as error:  # of an array with several elements
            raise InvalidArgument(
                f"BoxGroup.agree: answer {shown(answer)} is neither true nor false ({error}); give"
                " True or False"
            ) from None
        with self._call("agree"):
            if self._rank == ROOT:
                self._wait("agree", self._ready, self._all_have_read())
                self._pending.begin(self._answer.post.write(np.array([given], np.int64)))
                self._pending.finish(self._timeout)
                agreed = given
            else:
                self._wait("agree", self._answer, self._agreements + 1)
                agreed = bool(self._answer.read(timeout=self._timeout)[0])
                self._ready.post.signal()
            self._agreements += 1
            return agreed

    def _facts(self) -> str:
        return f"of '{self._name}', member {self._rank} of {self._size}"

    def _state(self) -> str:
        return "closed" if self._closed else "failed" if self._ended else ""

    def close(self, timeout: float | None = 1.0) -> None:
        """Detach from the segments, and give the rank back. A second call does nothing."""
        seconds("close", timeout)
        self._closed = True
        self._ended = self._ended or "it is closed"
        self._attached.close()

    def _all_have_read(self) -> int:
        """Return the version of `ready` once all members have read what the root wrote."""
        return (self._broadcasts + self._agreements + 1) * (self._size - 1)

    @contextlib.contextmanager
    def _call(self, operation: str, *arrays: Arrays) -> Iterator[None]:
        if self._ended:
            raise FailedPrecondition(
                f"BoxGroup.{operation}: member {self._rank} has left the group '{self._name}':"
                f" {self._ended}; close the object, and start all members again"
            )
        for given in arrays:
            self._shapes.check(f"BoxGroup.{operation}", given, writable=True)
        try:
            yield
        except BaseException as error:
            # The members are no longer at one call: those that wait for this one are to fail.
            self._ended = f"an earlier call failed ({str(error) or type(error).__name__})"
            with contextlib.suppress(Error):
                self._attached.close()
            if isinstance(error, NotFound):  # another thread's call failed meanwhile
                raise FailedPrecondition(
                    f"BoxGroup.{operation}: the segments of the group '{self._name}' were freed"
                    " during the call; start all members again"
                ) from error
            raise

    def _wait(self, operation: str, segment: Segment, version: int) -> None:
        end = None if self._timeout is None else time.monotonic() + self._timeout
        while True:
            left = _LOOK_S if end is None else min(max(end - time.monotonic(), 0), _LOOK_S)
            with contextlib.suppress(DeadlineExceeded):
                segment.wait(version, left)
                return
            missing = self._members.missing(self._keys)
            if segment.version >= version:  # before it left
                return
            if missing:
                raise FailedPrecondition(
                    f"BoxGroup.{operation}: of the {self._size} members of '{self._name}',"
                    f" {missing} closed or died; start all members again"
                )
            if end is not None and time.monotonic() >= end:
                raise DeadlineExceeded(
                    f"BoxGroup.{operation}: member {self._rank} waited {self._timeout} s for the"
                    f" other {self._size - 1}; check that they make the same calls, and start all"
                    " members again"
                )
