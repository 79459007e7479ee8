"""BoxGroup: all-reduce and broadcast among the members of a group, over segments of the box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from farwrite.arguments import seconds, whole_number
from farwrite.box.training.counters import MOST_WORKERS
from farwrite.box.training.pending import Pending
from farwrite.box.training.shapes import Array, Flat, Shapes
from farwrite.closing import Closing
from farwrite.errors import DeadlineExceeded, FailedPrecondition

if TYPE_CHECKING:
    from farwrite.box import Client, Segment


class BoxGroup(Closing):
    """Members that average their arrays, and take over those of the root.

    All members make the same calls in the same order. Two segments hold the sums, in turn: each
    member adds its share to one of them. When all have added, the segment before has been read by
    all, and the root clears it.

    The segments stay in the box after `close`: one name serves one group.

    A context manager. Use each object in one thread.

    Parameters
    ----------
    client : Client
        The member's connection to the box.
    name : str
        The segments are `name`/even, `name`/odd and `name`/root.
    arrays : sequence of ndarray
        Arrays of floats, in the shapes that every later call has.
    rank : int
        This member's number, from 0 to `size` - 1. Member 0 is the root.
    size : int
        How many members there are.
    timeout : float or None
        Seconds that a call waits for the other members; None waits for ever.

    Raises
    ------
    InvalidArgument
        If a value is out of range, or the segments belong to arrays of another size.
    FailedPrecondition
        If an earlier group has used the name.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        arrays: Sequence[Array],
        rank: int,
        size: int,
        *,
        timeout: float | None = 30.0,
    ) -> None:
        self._size = whole_number("BoxGroup", "size", size, 1, MOST_WORKERS)
        self._rank = whole_number("BoxGroup", "rank", rank, 0, self._size - 1)
        self._timeout = seconds("BoxGroup", timeout)
        self._shapes = Shapes("BoxGroup", arrays)
        shape = (self._shapes.size,)
        self._flat: Flat = client.array(shape, np.float32).array
        *self._sums, self._root = [
            client.create(f"{name}/{part}", shape, np.float32, exclusive=False)
            for part in (*_TURNS, "root")
        ]
        self._rounds = 0
        self._broadcasts = 0
        self._pending = Pending()  # reads self._flat
        self._clearing = Pending()
        # This member has added nothing yet, so a round of this group cannot be complete.
        if self._sums[0].version >= self._size:
            self.close()
            raise FailedPrecondition(
                f"BoxGroup: an earlier group has used the name '{name}'; choose another name"
            )

    @property
    def rank(self) -> int:
        """The number of this member."""
        return self._rank

    @property
    def size(self) -> int:
        """How many members there are."""
        return self._size

    def all_reduce(self, arrays: Sequence[Array]) -> None:
        """Set the arrays of every member to the average over all members.

        Every member gets the same bytes.

        Raises
        ------
        InvalidArgument
            If `arrays` differ in number, shape or kind from those of the constructor.
        DeadlineExceeded
            If not all members made the call in time.
        Error
            If the box cannot be reached.
        """
        self._shapes.check("BoxGroup.all_reduce", arrays, writable=True)
        use, turn = divmod(self._rounds, len(_TURNS))
        self._rounds += 1
        sums = self._sums[turn]
        cleared = use * (self._size + 1)  # each use: one addition of each member, and the clearing
        self._wait("all_reduce", sums, cleared)
        self._gather(arrays)
        self._pending.begin(sums.post.accumulate(self._flat, 1 / self._size))
        self._pending.finish(self._timeout)
        self._wait("all_reduce", sums, cleared + self._size)
        self._clear_the_other(turn)
        sums.read(self._flat, timeout=self._timeout)
        self._shapes.scatter(self._flat, arrays)

    def broadcast(self, arrays: Sequence[Array]) -> None:
        """Set the arrays of every member to those of the root.

        Call `all_reduce` between two broadcasts: the root then knows that the first was read.

        Raises
        ------
        InvalidArgument
            If `arrays` differ in number, shape or kind from those of the constructor.
        DeadlineExceeded
            If the root did not make the call in time.
        Error
            If the box cannot be reached.
        """
        self._shapes.check("BoxGroup.broadcast", arrays, writable=True)
        self._broadcasts += 1
        if self._rank == 0:
            self._gather(arrays)
            self._pending.begin(self._root.post.write(self._flat))
            self._pending.finish(self._timeout)
            return
        self._wait("broadcast", self._root, self._broadcasts)
        self._root.read(self._flat, timeout=self._timeout)
        self._shapes.scatter(self._flat, arrays)

    def close(self, timeout: float | None = 1.0) -> None:
        """Detach from the segments."""
        for segment in [*self._sums, self._root]:
            segment.detach()

    def _gather(self, arrays: Sequence[Array]) -> None:
        self._pending.finish(self._timeout)
        self._shapes.gather(arrays, self._flat)

    def _clear_the_other(self, turn: int) -> None:
        if self._rank == 0 and self._rounds > 1:
            self._clearing.finish(self._timeout)
            self._clearing.begin(self._sums[1 - turn].post.fill(0))

    def _wait(self, operation: str, segment: Segment, version: int) -> None:
        try:
            segment.wait(version, self._timeout)
        except DeadlineExceeded:
            raise DeadlineExceeded(
                f"BoxGroup.{operation}: member {self._rank} waited {self._timeout} s for the other"
                f" {self._size - 1}; check that all are alive and make the same calls"
            ) from None


_TURNS = ("even", "odd")
