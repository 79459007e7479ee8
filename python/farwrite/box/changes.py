"""Changes: what a client can ask the server to do with a segment."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Generic, SupportsFloat, SupportsIndex, TypeVar

from farwrite import _farwrite
from farwrite.arguments import flag, index, shown
from farwrite.box.element import Elements, Layout, elements_of, factor_of, type_name
from farwrite.box.update import Update
from farwrite.errors import InvalidArgument, OutOfRange
from farwrite.lifetime.handle import Handle

if TYPE_CHECKING:
    from typing import TypeGuard

    from farwrite.box.segment import Segment

Outcome = TypeVar("Outcome")
_Operation = _farwrite.BoxOperation


class Changes(
    Handle,
    abc.ABC,
    Generic[Outcome],
    elsewhere="attach the segment in the other process: client.attach(name)",
):
    """The changes of a segment. The server applies those of one client in the order of the calls.

    Each change is applied wholly or not at all, and counts as one version. Changes of one segment
    are applied one after the other, also those of different clients.

    The methods of `Segment` wait and return the new version, or raise `DeadlineExceeded` after the
    timeout given to `connect`. The methods of `Segment.post` do not wait: they return an `Update`.
    Until it is settled, the source must not change.

    After an exception such as `DeadlineExceeded` or Ctrl-C the change may still be on its way. It
    then owns its source; fill other memory next.

    An index counts elements of the segment in C order. A range without `count` reaches to the end
    of the segment.
    """

    @abc.abstractmethod
    def _segment(self) -> Segment: ...

    @abc.abstractmethod
    def _wait(self) -> float | None:
        """How long a change waits for its end, in seconds."""

    @abc.abstractmethod
    def _outcome(self, update: Update) -> Outcome: ...

    def write(
        self,
        source: object,
        *,
        start: SupportsIndex | None = None,
        new_epoch: bool = False,
        fence: Segment | None = None,
    ) -> Outcome:
        """Replace elements. A write of the whole segment costs the server no second copy.

        Parameters
        ----------
        source : array, buffer or DLPack exporter
            Of the segment's dtype, C-contiguous, on the CPU or a GPU. Without `start`, of its
            shape.
        start : int, optional
            Index of the first element to replace. `source` may then have fewer elements.
        new_epoch : bool
            Give the segment a new epoch with this version, for contents that do not go on from the
            ones before. It ends the waits of readers that gave the epoch before.
        fence : Segment, optional
            Write only if this segment of the same server was not freed. Freeing it fences off all
            who write with it.

        Raises
        ------
        InvalidArgument
            If dtype or shape do not match.
        OutOfRange
            If the elements exceed the segment.
        NotFound
            If the segment or the fence was freed.
        """
        anew, key = flag("write", "new_epoch", new_epoch), _key("write", "fence", fence)
        return self._from_memory(
            "write", _Operation.WRITE, source, 1.0, start, new_epoch=anew, y_key=key
        )

    def accumulate(
        self,
        delta: object,
        scale: SupportsFloat = 1.0,
        *,
        start: SupportsIndex | None = None,
        delta_start: SupportsIndex = 0,
        count: SupportsIndex | None = None,
    ) -> Outcome:
        """Add ``scale * delta``. The server does the arithmetic.

        Parameters
        ----------
        delta : Segment, array, buffer or DLPack exporter
            As `write`. A segment of the same server and dtype is added where it is.
        scale : int or float
            For a segment of integers a value of its dtype, which is used exactly.
        start : int, optional
            Index of the first element to change.
        delta_start, count : int, optional
            Of a `delta` that is a segment: its first element, and how many are added. `count` may
            also be the number of elements of an array.

        Raises
        ------
        InvalidArgument, OutOfRange
            As `write`, or if the dtype has no arithmetic.
        """
        factor = _factor("accumulate", "scale", scale, self._segment())
        if _is_segment(delta):
            return self._from_segment(
                "accumulate",
                _Operation.ACCUMULATE,
                "delta",
                delta,
                factor,
                start,
                delta_start,
                count,
            )
        _check_start("accumulate", "delta", delta_start)
        return self._from_memory(
            "accumulate", _Operation.ACCUMULATE, delta, factor, start, count=count
        )

    def axpy(
        self,
        a: SupportsFloat,
        x: object,
        y: Segment,
        *,
        start: SupportsIndex | None = None,
        x_start: SupportsIndex = 0,
        y_start: SupportsIndex = 0,
        count: SupportsIndex | None = None,
    ) -> Outcome:
        """Set elements to ``a * x + y``.

        Parameters
        ----------
        a : int or float
            As `scale` of `accumulate`.
        x : Segment, array, buffer or DLPack exporter
            As `accumulate`.
        y : Segment
            Of the same server and dtype.
        start, x_start, y_start, count : int, optional
            First elements of this segment, of `x` if it is a segment, and of `y`; and how many.
        """
        target = self._segment()
        other = _checked_segment("axpy", "y", y, target)
        factor = _factor("axpy", "a", a, target)
        y_first = _index("axpy", "y_start", y_start)
        if y_first > other.size:
            raise OutOfRange(
                f"axpy: y_start {shown(y_first)} exceeds '{other.name}', which has {other.size}"
                " elements; give a smaller one"
            )
        fields: dict[str, Any] = {"y_key": other.key, "y_offset": y_first * target.itemsize}
        if _is_segment(x):
            return self._from_segment(
                "axpy", _Operation.AXPY, "x", x, factor, start, x_start, count, **fields
            )
        _check_start("axpy", "x", x_start)
        return self._from_memory("axpy", _Operation.AXPY, x, factor, start, count=count, **fields)

    def scale(
        self,
        factor: SupportsFloat,
        *,
        start: SupportsIndex = 0,
        count: SupportsIndex | None = None,
    ) -> Outcome:
        """Multiply elements by `factor`; of integers, by a value of their dtype."""
        return self._alone("scale", _Operation.SCALE, "factor", factor, start, count)

    def fill(
        self,
        value: SupportsFloat,
        *,
        start: SupportsIndex = 0,
        count: SupportsIndex | None = None,
    ) -> Outcome:
        """Set elements to `value`; integers to any value of their dtype, exactly."""
        return self._alone("fill", _Operation.FILL, "value", value, start, count)

    def copy_from(
        self,
        source: Segment,
        *,
        start: SupportsIndex | None = None,
        source_start: SupportsIndex = 0,
        count: SupportsIndex | None = None,
    ) -> Outcome:
        """Copy elements of another segment of the same server and dtype."""
        return self._from_segment(
            "copy_from", _Operation.WRITE, "source", source, 1.0, start, source_start, count
        )

    def swap(
        self,
        other: Segment,
        *,
        start: SupportsIndex | None = None,
        other_start: SupportsIndex = 0,
        count: SupportsIndex | None = None,
    ) -> Outcome:
        """Exchange elements with another segment of the same server and dtype.

        The change counts as a version of both segments.
        """
        return self._from_segment(
            "swap", _Operation.SWAP, "other", other, 1.0, start, other_start, count
        )

    def signal(self) -> Outcome:
        """Count one version more, and change no element."""
        return self._post(_Operation.SIGNAL, 0, None, 1.0)

    # --- From the caller's words to the core's.

    def _from_memory(
        self,
        operation: str,
        code: _farwrite.BoxOperation,
        source: object,
        factor: int | float,
        start: SupportsIndex | None,
        *,
        count: SupportsIndex | None = None,
        **fields: Any,
    ) -> Outcome:
        target = self._segment()
        elements = elements_of(operation, source)
        if count is not None and _index(operation, "count", count) != elements.size:
            raise InvalidArgument(
                f"{operation}: count is {shown(count)} and the array has {elements.size} elements;"
                " leave count out, and give a slice of the array to use a part"
            )
        offset = target.offset_of(operation, elements, start)
        return self._post(
            code, offset, elements.data.nbytes, factor, memory=elements.data, **fields
        )

    def _from_segment(
        self,
        operation: str,
        code: _farwrite.BoxOperation,
        what: str,
        source: object,
        factor: int | float,
        start: SupportsIndex | None,
        source_start: SupportsIndex,
        count: SupportsIndex | None,
        **fields: Any,
    ) -> Outcome:
        target = self._segment()
        other = _checked_segment(operation, what, source, target)
        if start is None and count is None and other.size != target.size:
            raise InvalidArgument(
                f"{operation}: '{target.name}' has {target.size} elements and '{other.name}' has"
                f" {other.size}; give start, count and the source's start to use a part"
            )
        first = _index(operation, f"{what}_start", source_start)
        begin, length = target.range_of(operation, 0 if start is None else start, count)
        if first + length // target.itemsize > other.size:
            raise OutOfRange(
                f"{operation}: {length // target.itemsize} elements from {shown(first)} on"
                f" exceed '{other.name}', which has {other.size}; give a smaller count"
            )
        return self._post(
            code, begin, length, factor, x_key=other.key, x_offset=first * target.itemsize, **fields
        )

    def _alone(
        self,
        operation: str,
        code: _farwrite.BoxOperation,
        what: str,
        value: SupportsFloat,
        start: SupportsIndex,
        count: SupportsIndex | None,
    ) -> Outcome:
        target = self._segment()
        factor = _factor(operation, what, value, target)
        offset, length = target.range_of(operation, start, count)
        return self._post(code, offset, length, factor)

    def _post(
        self,
        code: _farwrite.BoxOperation,
        offset: int,
        length: int | None,
        factor: int | float,
        *,
        memory: Any = None,
        x_key: int = 0,
        x_offset: int = 0,
        y_key: int = 0,
        y_offset: int = 0,
        new_epoch: bool = False,
    ) -> Outcome:
        target = self._segment()
        native = target.native.post(
            code, offset, length, factor, memory, x_key, x_offset, y_key, y_offset, new_epoch,
            self._wait(),
        )  # fmt: skip
        return self._outcome(Update(native, target))


class Posted(Changes[Update]):
    """The changes of a segment without the wait. `Segment.post` creates it.

    The constructor is internal.
    """

    def __init__(self, segment: Segment) -> None:
        self._target = segment

    def _segment(self) -> Segment:
        return self._target

    def _wait(self) -> float:
        return 0.0

    def _outcome(self, update: Update) -> Update:
        return update

    def __repr__(self) -> str:
        return f"<changes of {self._target!r}, posted>"


def offset_of(
    operation: str, name: str, layout: Layout, elements: Elements, start: SupportsIndex | None
) -> int:
    """Check that an array fits into a segment at element `start`; return its offset in bytes.

    Raises
    ------
    InvalidArgument, OutOfRange
        If it does not.
    """
    if elements.text != layout.text:
        raise InvalidArgument(
            f"{operation}: '{name}' has dtype {layout.name} and the array has dtype"
            f" {type_name(elements.text)}; convert it, for example with x.astype(segment.dtype)"
        )
    if start is None:
        if elements.shape != layout.shape and elements.shape != (layout.size,):
            raise InvalidArgument(
                f"{operation}: '{name}' has shape {layout.shape} and the array has shape"
                f" {elements.shape}; give an array of that shape, or start= for a part"
            )
        return 0
    first = _index(operation, "start", start)
    inner = elements.shape[1:]
    if inner and (len(elements.shape) > len(layout.shape) or layout.shape[-len(inner) :] != inner):
        raise InvalidArgument(
            f"{operation}: '{name}' has shape {layout.shape} and the array has shape"
            f" {elements.shape}; give whole rows, or x.reshape(-1) for consecutive elements"
        )
    if first + elements.size > layout.size:
        raise OutOfRange(
            f"{operation}: {elements.size} elements from {shown(first)} on exceed '{name}', which"
            f" has shape {layout.shape} and {layout.size} elements; change start or give fewer"
        )
    return first * layout.itemsize


def range_of(
    operation: str, name: str, layout: Layout, start: SupportsIndex, count: SupportsIndex | None
) -> tuple[int, int]:
    """Check a range of elements; return its offset and its length in bytes."""
    first = _index(operation, "start", start)
    length = max(layout.size - first, 0) if count is None else _index(operation, "count", count)
    if first + length > layout.size:
        raise OutOfRange(
            f"{operation}: {shown(length)} elements from {shown(first)} on exceed '{name}', which"
            f" has shape {layout.shape} and {layout.size} elements; change start or count"
        )
    return first * layout.itemsize, length * layout.itemsize


def _index(operation: str, what: str, value: SupportsIndex) -> int:
    number = index(operation, what, value)
    if number < 0:
        raise OutOfRange(
            f"{operation}: {what} {shown(number)} is negative; count from the first element"
        )
    return number


def _check_start(operation: str, what: str, start: SupportsIndex) -> None:
    """Refuse a part of something that is no segment: a slice of an array says it."""
    if _index(operation, f"{what}_start", start) != 0:
        raise InvalidArgument(
            f"{operation}: {what} is no segment, so {what}_start cannot be used; give a slice as"
            f" {what}"
        )


def _factor(operation: str, what: str, value: SupportsFloat, target: Segment) -> int | float:
    return factor_of(operation, what, value, target.layout, f"'{target.name}' has")


def _is_segment(value: object) -> TypeGuard[Segment]:
    """Tell a segment, which changes itself, from what `Segment.post` returns."""
    return isinstance(value, Changes) and value._segment() is value


def _given_segment(operation: str, what: str, value: object) -> Segment:
    if not _is_segment(value):
        raise InvalidArgument(
            f"{operation}: {what} is {type(value).__name__} instead of Segment; give a Segment of"
            " the same server"
        )
    return value


def _key(operation: str, what: str, value: object) -> int:
    return 0 if value is None else _given_segment(operation, what, value).key


def _checked_segment(operation: str, what: str, value: object, target: Segment) -> Segment:
    value = _given_segment(operation, what, value)
    if value.layout.text != target.layout.text:
        raise InvalidArgument(
            f"{operation}: '{target.name}' has dtype {target.layout.name} and '{value.name}' has"
            f" dtype {value.layout.name}; use segments of one dtype"
        )
    return value
