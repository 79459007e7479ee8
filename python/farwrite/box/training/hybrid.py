"""HybridSEASGD: groups that train in step, and meet the other groups by elastic averaging."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from farwrite.arguments import flag, function, seconds, whole_number
from farwrite.box.training.seasgd import SEASGD
from farwrite.box.training.shapes import (
    Arrays,
    Nonfinite,
    Shapes,
    checked_choice,
    finite,
    values_of,
)
from farwrite.errors import FailedPrecondition, InvalidArgument
from farwrite.lifetime.closing import Closing

if TYPE_CHECKING:
    from farwrite.box import Client

Collective = Callable[[Any], object]  # of the arrays that the caller gave


class HybridSEASGD(Closing):
    """Elastic averaging between groups, and averaging in each step inside a group.

    A step averages the members' weights. The group's root then exchanges with the shared weights,
    as `SEASGD` does, and broadcasts the result in its group. Members that start with equal weights
    and take plain SGD steps thereby train as one worker with the sum of their batches.

    A step that fails, other than for its arguments, ends the object: the members of the group may
    be at different steps then. Close it, and start all members of the group again. They join the
    other groups as the workers of `SEASGD` do.

    A context manager. Use each object in one thread.

    Parameters
    ----------
    client : Client or None
        The root's connection to the box; unused in the other members.
    name : str
        The segment of the shared weights, the same for all groups.
    arrays : sequence or dict of ndarray
        The member's weights, as in `SEASGD`. They are set to the root's.
    all_reduce : callable
        Sets the arrays of a list to their averages over the group, in every member: for example
        `BoxGroup.all_reduce`.
    broadcast : callable
        Sets the arrays of a list to the root's, in every member: for example
        `BoxGroup.broadcast`.
    root : bool
        Whether this member is its group's root.
    moving_rate : float
        As in `SEASGD`.
    period : int
        Exchange with the other groups in each `period`-th step.
    timeout, takeover
        As in `SEASGD`.
    nonfinite : {"refuse", "skip"}
        What a step does if the group's averages have NaN or infinity, as they have if one member's
        weights do. "refuse" raises InvalidArgument in every member. "skip" sets all members to the
        shared weights. Give every member the same.

    Raises
    ------
    InvalidArgument
        If a value is out of range, or the root has no client.
    Error
        As `SEASGD` in the root, and what `broadcast` raises.

    References
    ----------
    ShmCaffe: hybrid SGD.
    """

    def __init__(
        self,
        client: Client | None,
        name: str,
        arrays: Arrays,
        *,
        all_reduce: Collective,
        broadcast: Collective,
        root: bool,
        moving_rate: float = 0.2,
        period: int = 1,
        timeout: float | None = 30.0,
        takeover: bool = False,
        nonfinite: Nonfinite = "refuse",
    ) -> None:
        self._nonfinite = checked_choice("HybridSEASGD", nonfinite)
        self._all_reduce = function("HybridSEASGD", "all_reduce", all_reduce, "the arrays")
        self._broadcast = function("HybridSEASGD", "broadcast", broadcast, "the arrays")
        takeover = flag("HybridSEASGD", "takeover", takeover)
        self._period = whole_number("HybridSEASGD", "period", period, 1, 2**31)
        self._shapes = Shapes("HybridSEASGD", arrays)
        self._steps = 0
        self._failure = ""
        self._name = name
        self._seasgd: SEASGD | None = None
        if flag("HybridSEASGD", "root", root):
            if client is None:
                raise InvalidArgument("HybridSEASGD: the root has no client; connect it to the box")
            self._seasgd = SEASGD(
                client, name, arrays, moving_rate,
                timeout=timeout, takeover=takeover, nonfinite=nonfinite,
            )  # fmt: skip
        try:
            self._broadcast(arrays)
        except BaseException:
            self.close(0)
            raise

    def step(self, arrays: Arrays) -> None:
        """Average in the group, and exchange with the other groups when it is time.

        Call it in every member, after the member's own update. `arrays` are changed in place.

        Raises
        ------
        InvalidArgument
            If `arrays` differ in number, name, shape or dtype from those of the constructor; or the
            averages have NaN or infinity and `nonfinite` is "refuse".
        FailedPrecondition
            If an earlier step has failed, or the object is closed.
        Error
            As `SEASGD.step` in the root, and what the callables raise.
        """
        if self._closed:
            raise FailedPrecondition(
                "HybridSEASGD.step: the object is closed; open another one in every member"
            )
        if self._failure:
            raise FailedPrecondition(
                f"HybridSEASGD.step: an earlier step failed ({self._failure}); close the object,"
                " and start all members of the group again"
            )
        self._shapes.check("HybridSEASGD.step", arrays, writable=True)
        try:
            self._all_reduce(arrays)
            # The same in every member, because their arrays are: none waits for one that failed.
            usable = finite(values_of(arrays))
            if not usable and self._nonfinite == "refuse":
                raise InvalidArgument(
                    "HybridSEASGD.step: the group's averages have NaN or infinity, as the weights"
                    " of a member have; end the training or lower its learning rate, or give"
                    " nonfinite='skip' to go on from the shared weights"
                )
            if not usable or (self._steps + 1) % self._period == 0:
                if self._seasgd is not None:
                    self._seasgd.step(arrays)
                self._broadcast(arrays)
        except BaseException as error:
            self._failure = str(error) or type(error).__name__
            raise
        self._steps += 1

    def flush(self) -> None:
        """Wait until the box has applied the root's last exchange, as `SEASGD.flush`."""
        if self._seasgd is not None:
            self._seasgd.flush()

    def _facts(self) -> str:
        return f"of '{self._name}'"

    def close(self, timeout: float | None = 30.0) -> None:
        """Close the root's `SEASGD`. The other members have nothing else to close.

        Raises
        ------
        Error
            As `SEASGD.close`, in the root.
        """
        limit = seconds("close", timeout)
        self._closed = True
        if self._seasgd is not None:
            self._seasgd.close(limit)
