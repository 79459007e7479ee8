"""Nasty values, by what an argument is: for each domain, what to give and what may be accepted."""

from __future__ import annotations

import ctypes
import decimal
import math
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import farwrite as fw

LONE = "\udc80"  # a surrogate that UTF-8 cannot express


class HostileError(Exception):
    """What the objects of a caller raise, which goes back to the caller."""


class Hostile:
    """An object that fails in whatever it is used for, except to be shown."""

    def _fail(self, *_: object, **__: object) -> Any:
        raise HostileError

    __index__ = __int__ = __float__ = __bool__ = __len__ = __iter__ = __getitem__ = _fail
    __array__ = __dlpack__ = __dlpack_device__ = __fspath__ = __call__ = __eq__ = _fail
    __hash__ = None  # type: ignore[assignment]


class Text(str):
    """A subclass of str."""

    __slots__ = ()


class Array(np.ndarray[Any, Any]):
    """A subclass of NumPy's array."""


class OfTheWorld(str):
    """The name of an object of the world, which stands for it."""

    __slots__ = ()


Accepts = Callable[[Any], bool]


@dataclass(frozen=True)
class Domain:
    """What a parameter takes."""

    values: tuple[Any, ...] = ()
    accepts: Accepts = lambda _: False
    """Whether a call may do what it was asked to. Every other value must be refused."""
    like: Callable[[Any], Iterator[Any]] = lambda _: iter(())
    """More values, made of the valid one."""
    waits: Accepts = lambda _: False
    """Whether a call may wait longer than a test does, because of this value."""
    must: Accepts = lambda _: False
    """Whether a call must not refuse it, whatever else may come of it."""


def closed_view() -> memoryview:
    view = memoryview(bytearray(8))
    view.release()
    return view


def closed_map() -> mmap.mmap:
    memory = mmap.mmap(-1, 4096)
    memory.close()
    return memory


NUMBERS = (
    math.nan, math.inf, -math.inf, 2**31, 2**32, 2**63, 2**64, 10**400, 10**5000, -1, -(2**63),
    -0.0, 0, 1.5, True, 1j, None, decimal.Decimal(1), decimal.Decimal("NaN"), np.float32(1),
    np.timedelta64(1, "ns"), np.datetime64(1, "ns"),
    np.int8(1), np.uint64(2**64 - 1), np.True_, np.array(1), np.array([1, 1]), "1", b"1",
    "", [1], (1, 1), {}, object(), Hostile(), ctypes.c_int(1), fw.StatusCode.OK,
)  # fmt: skip
NO_ARRAYS = (None, 5, 1.5, "text", LONE, [1.0] * 8, {}, object(), Hostile(), np.float32, True)


NO_NUMBERS = (str, bytes, complex, np.timedelta64, np.datetime64)
"""What `float` may turn into a number, although it is not one."""


def is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, *NO_NUMBERS))


def whole(low: int, high: int, *others: Any) -> Domain:
    """Take a number from `low` to `high`; an array without dimensions is one to Python."""

    def accepts(value: Any) -> bool:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        return is_whole(value) and low <= int(value) <= high

    return optional(Domain((*NUMBERS, low - 1, low, high + 1), accepts, must=accepts), *others)


def optional(domain: Domain, *also: Any) -> Domain:
    """Take these objects besides what `domain` takes."""

    def accepts(value: Any) -> bool:
        return any(value is one for one in also) or domain.accepts(value)

    def must(value: Any) -> bool:
        return any(value is one for one in also) or domain.must(value)

    return replace(domain, values=(*domain.values, *also), accepts=accepts, must=must)


def is_time(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_, *NO_NUMBERS)):
        return False
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return False
    try:
        return float(value) >= 0
    except (TypeError, ValueError, OverflowError, HostileError):
        return False


def _is_long(value: Any) -> bool:
    return value is None or float(value) > 0.1


TIMEOUT = replace(
    optional(Domain((*NUMBERS, 1e-320, 1e300, 9e9, 10**18, "5s"), is_time, must=is_time), None),
    waits=_is_long,
)


def _is_real(value: Any) -> bool:
    if isinstance(value, NO_NUMBERS):
        return False
    try:
        float(value)
    except (TypeError, ValueError, OverflowError, HostileError):
        return False
    return True


REAL = Domain((*NUMBERS, "0.5"), _is_real, must=_is_real)


def rate(most: float) -> Domain:
    """Take a number above 0, up to `most`, that float32 can hold."""

    def accepts(value: Any) -> bool:
        return is_time(value) and 0 < float(value) <= most

    return Domain((*NUMBERS, np.array(0.5), np.float16(0.5), "0.5"), accepts, must=accepts)


TEXT = Domain(
    ("", "a\0b", LONE, "x" * 300, "y" * (1 << 20), "\N{BLACK STAR}" * 90, b"x", Text("sub"), "/",
     "..", "a\nb", 5, 1.5, None, True, ["x"], object(), Hostile(), bytearray(b"x"), np.str_("np"),
     fw.StatusCode.OK),
    lambda v: isinstance(v, str) and LONE not in v,
)  # fmt: skip
SWITCH = Domain(
    (None, 2, -1, 1.5, math.nan, "perhaps", "", b"1", [], [1], {}, object(), Hostile(),
     np.array([1, 1]), np.False_, np.True_, np.int64(1), 0, "no", "off", fw.StatusCode.OK),
    lambda v: isinstance(v, (str, int, np.integer, np.bool_)) and v not in ("", "perhaps", 2, -1),
)  # fmt: skip
SWITCH = replace(SWITCH, must=SWITCH.accepts)


def _has_truth(value: Any) -> bool:
    try:
        bool(value)
    except (TypeError, ValueError, HostileError):
        return False
    return True


TRUTH = Domain((*SWITCH.values, np.array(True)), _has_truth, must=_has_truth)


def choice(*words: object) -> Domain:
    """Take one of these words."""
    values = (
        "", "odd", LONE, b"host", 5, 1.5, math.nan, [], {}, object(), Hostile(),
        fw.StatusCode.INTERNAL, np.array([1, 2]), np.str_("odd"), "a\0b", None, *words,
    )  # fmt: skip
    of_bools = (True, False, np.True_, np.False_, 1, 0, np.int64(1))

    def accepts(value: Any) -> bool:
        one = isinstance(value, str) or value is None or any(value is word for word in of_bools)
        return one and value in words

    return Domain(values if True not in words else (*values, *of_bools), accepts, must=accepts)


_FABRICS = (["shm"], ("shm",), {"shm"}, np.array(["shm"]), np.array(["shm"], object))
FABRICS = Domain(
    (*NUMBERS, "shm", ["pigeon"], [["shm"]], np.array("shm"), np.array([["shm"]]), *_FABRICS),
    lambda v: any(v is one for one in _FABRICS),
    must=lambda v: any(v is one for one in _FABRICS),
)


def function(*also: Any) -> Domain:
    """Take something that can be called."""
    values = (5, "text", [], {}, object(), np.ones(2), None, _raise)
    return optional(Domain(values, callable, must=callable), *also)


def _raise(*_: object) -> None:
    raise HostileError


def _is_shape(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 0
    lengths = value if isinstance(value, (tuple, list, range)) else (value,)
    return len(lengths) < 64 and all(is_whole(n) and n >= 0 for n in lengths)


SHAPE = Domain(
    (*NUMBERS, (), (-1,), (2**40, 2**40), (0, 2**62), (1,) * 70, (1,) * 20, (True,), (1.5,), [2, 3],
     range(3), "12", b"12", np.array([2, 3]), (2**63,), (2**64, 0), ((1,), 2), (None,)),
    _is_shape,
)  # fmt: skip
DTYPE = Domain(
    ("nonsense", "", LONE, object, "O", 5, 1.5, True, [], {}, object(), Hostile(), ">f4", "f2",
     "c16", "?", "M8[s]", "M8", "U0", "S0", "V0", "V3", "U3", "f4,i2",
     ("f4", (2,)), [("a", "f4"), ("a", "i4")],
     np.dtype({"names": ["a", "b"], "formats": ["f4", "f4"], "offsets": [0, 2]}), np.float32(1),
     np.ones(2), "i4\0", 10**400, "f4" * 100000, fw.StatusCode.OK),
    lambda v: isinstance(v, (str, np.dtype, list, dict, np.float32))
    and v not in ("nonsense", "", LONE, "O", "i4\0"),
)  # fmt: skip


def arrays_like(valid: Any) -> Iterator[Any]:
    """Arrays that differ from a valid one in one thing."""
    array = np.frombuffer(valid, np.uint8) if isinstance(valid, (bytes, bytearray)) else valid
    array = np.arange(1, array.size + 1).astype(array.dtype).reshape(array.shape)
    read_only = array.copy()
    read_only.flags.writeable = False
    yield read_only
    yield array.copy().view(Array)
    yield memoryview(array.copy())
    yield bytearray(array.tobytes())
    yield array[::-1]
    yield np.repeat(array, 2)[::2]
    yield np.broadcast_to(array[:1], array.shape)  # elements overlap
    yield np.asfortranarray(np.ones((2, *array.shape), array.dtype))
    yield np.ma.masked_array(array.copy(), [True] + [False] * (array.size - 1))
    yield array[:0]
    yield array[0]
    yield np.array(array[0])
    yield array[:-1].copy()
    yield np.append(array, array).astype(array.dtype)
    yield array.reshape(1, *array.shape)
    yield array.reshape(2, -1)
    yield array.astype(array.dtype.newbyteorder(">" if array.dtype.itemsize > 1 else "="))
    for dtype in ("f2", "?", "c8", "i8", "M8[s]", "f4,i4", "S4", "U1", "V4"):
        yield np.zeros(array.shape, dtype)
    yield np.array([None] * array.size, object)
    yield memoryview(array.tobytes())[::2]
    yield closed_view()
    yield closed_map()
    for device in (None, 5, (1,), ("a", "b"), (2**70, 0), (-3, 0), (2, 0), (13, 99)):
        yield Exporter(device)


def is_foreign(value: Any) -> bool:
    """Whether an array belongs to another library, which this machine may lack."""
    if isinstance(value, dict):
        return any(isinstance(leaf, Exporter) for leaf in value.values())
    return isinstance(value, Exporter)


class Exporter:
    """An array whose library gives `device` as DLPack's."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def __dlpack_device__(self) -> Any:
        return self._device

    def __dlpack__(self, **_: object) -> Any:
        return np.ones(8, "f4").__dlpack__()


def lists_like(valid: Any) -> Iterator[Any]:
    """Lists of arrays that differ from a valid one in one thing."""
    yield from ([], {}, valid * 2, [*valid, None], iter(valid), tuple(valid), valid[0])
    for array in arrays_like(valid[0]):
        yield [array]


def gradients_like(valid: Any) -> Iterator[Any]:
    """Lists of arrays that differ from a valid one in one thing, or have no finite value."""
    yield from lists_like(valid)
    yield from ([np.full_like(valid[0], value)] for value in (math.nan, math.inf))


def models_like(valid: Any) -> Iterator[Any]:
    """Models that differ from a valid one in one thing."""
    name, array = next(iter(valid.items()))
    yield from ({}, {name: {}}, {name: [array]}, [], (array,), [array])
    yield {name: array, "more": array}
    yield from ({other: array} for other in ("other", 5, LONE, None, "a\0b", ""))
    looped: dict[str, Any] = {}
    looped["w"] = looped
    yield looped
    yield {name: {"inner": array}, f"{name}/inner": array}
    yield from ({name: other} for other in (*arrays_like(array), *NO_ARRAYS))


def is_array(value: Any) -> bool:
    """Whether the bytes of `value` are those that NumPy shows."""
    if isinstance(value, Exporter):
        return False
    try:
        array = np.asarray(value if isinstance(value, np.ndarray) else memoryview(value))
    except (TypeError, ValueError, HostileError):
        return False
    masked = isinstance(value, np.ma.MaskedArray)
    return array.flags.c_contiguous and not array.dtype.hasobject and not masked


def is_floats(value: Any) -> bool:
    """Whether a training can begin with these arrays."""

    def has_floats(array: Any) -> bool:
        kind = isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)
        return kind and array.dtype in ("f2", "f4", "f8") and array.size > 0

    return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(has_floats, value))


def is_weights(value: Any) -> bool:
    """Whether these are like the arrays of the world's trainings: 8 float32."""
    return is_floats(value) and [(a.dtype, a.shape) for a in value] == [(np.float32, (8,))]


def is_model(value: Any) -> bool:
    """Whether every tensor of a model can be sent, and its names can."""
    if isinstance(value, dict):
        names = all(isinstance(name, str) and name != LONE for name in value)
        return names and value.get("w") is not value and all(map(is_model, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(is_model, value))
    return isinstance(value, (int, float)) or is_array(value)


ARRAY = Domain(NO_ARRAYS, is_array, arrays_like)
ARRAYS = Domain((*NO_ARRAYS, [None], ["text"], [[1.0] * 8], [Hostile()]), is_weights, lists_like)
GRADIENTS = replace(
    ARRAYS,
    accepts=lambda v: is_weights(v) and bool(np.isfinite(v[0]).all()),
    like=gradients_like,
)
FLOATS = replace(ARRAYS, accepts=is_floats)
MODEL = Domain(NO_ARRAYS, lambda v: isinstance(v, (dict, list, tuple)) and is_model(v), models_like)
