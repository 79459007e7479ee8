"""The element types of segments, and arrays seen as bytes of such elements."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import shown
from farwrite.errors import Error, InvalidArgument, ProtocolError, Unsupported
from farwrite.memory.array import RegisteredArray
from farwrite.memory.cuda import check_writable, view_on_gpu
from farwrite.memory.description import (
    Shape,
    check_size,
    checked_dtype,
    checked_shape,
    dtype_from_text,
    dtype_to_text,
)
from farwrite.memory.payload import SupportsDLPack, as_array, view_dlpack
from farwrite.memory.torch import torch_name

BFLOAT16 = "bfloat16"
VERSION = 1
"""Of the description of an array whose elements the server has no arithmetic for."""

# What the server can add, by the text of farwrite.memory.description.
_ARITHMETIC = {
    "<f8": _farwrite.BoxElement.FLOAT64,
    "<f4": _farwrite.BoxElement.FLOAT32,
    "<f2": _farwrite.BoxElement.FLOAT16,
    BFLOAT16: _farwrite.BoxElement.BFLOAT16,
    "<i4": _farwrite.BoxElement.INT32,
    "<i8": _farwrite.BoxElement.INT64,
}
_TEXTS = {element: text for text, element in _ARITHMETIC.items()}


class Elements(NamedTuple):
    """A caller's array, without a copy; of an array on a GPU, its copy in host memory."""

    data: npt.NDArray[Any]
    """The array, or its bytes: with the buffer protocol. It keeps the caller's memory alive."""
    text: str
    """The element type, as farwrite.memory.description writes it."""
    shape: tuple[int, ...]
    on_gpu: _farwrite.CudaBytes | None = None
    """The array itself, if it is on a GPU."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def finish(self) -> None:
        """Copy what was read to the array, if it is on a GPU."""
        if self.on_gpu is not None:
            _farwrite.copy(self.on_gpu, self.data)


class Layout(NamedTuple):
    """The shape and the element type of a segment or of a tensor in a model."""

    text: str
    """The element type, as farwrite.memory.description writes it."""
    shape: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 2 if self.text == BFLOAT16 else dtype_from_text(self.text).itemsize

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def name(self) -> str:
        """The element type for people: "float32"."""
        return type_name(self.text)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy has it.

        Raises
        ------
        Unsupported
            If the type is bfloat16, and the package ml_dtypes is not installed.
        """
        try:
            return dtype_from_text(self.text)
        except ProtocolError as error:
            if self.text != BFLOAT16:
                raise
            raise Unsupported(
                "NumPy has no bfloat16 without the package ml_dtypes; install it (pip install"
                " ml_dtypes), or give a destination that has the type: read(out=tensor)"
            ) from error

    @property
    def element(self) -> _farwrite.BoxElement:
        """The type as the server knows it: BYTES for those without arithmetic."""
        return _ARITHMETIC.get(self.text, _farwrite.BoxElement.BYTES)

    def dims(self) -> tuple[int, ...]:
        """Return the shape as the server knows it: bytes have one dimension more."""
        if self.element is _farwrite.BoxElement.BYTES and self.itemsize != 1:
            return (*self.shape, self.itemsize)
        return self.shape

    def description(self) -> str:
        """Return what the server keeps for the clients, if its element type does not say all."""
        if self.element is not _farwrite.BoxElement.BYTES:
            return ""
        return json.dumps({"array": VERSION, "dtype": self.text, "shape": self.shape})

    def over(self, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """View `data`, at least as many bytes, as an array of this shape and type."""
        return np.ndarray(self.shape, self.dtype, buffer=data)  # type: ignore[arg-type,unused-ignore]

    def same_as(self, other: Elements | Layout) -> bool:
        """Whether both have one shape and element type."""
        return self.text == other.text and self.shape == other.shape


def layout_of(operation: str, shape: Shape, dtype: object) -> Layout:
    """Turn a caller's shape and dtype into a Layout.

    Parameters
    ----------
    shape : int or tuple of int
        Lengths of the dimensions.
    dtype : dtype
        NumPy's, or "bfloat16", or PyTorch's.

    Raises
    ------
    InvalidArgument
        If either is not valid.
    """
    text = _dtype_text(operation, dtype)
    itemsize = Layout(text, ()).itemsize
    if itemsize == 0:
        raise InvalidArgument(
            f"{operation}: dtype {shown(dtype)} has elements of 0 bytes, which cannot be read;"
            " give one with bytes"
        )
    lengths = checked_shape(operation, shape)
    try:
        check_size(lengths, itemsize)
    except ValueError as error:
        raise InvalidArgument(f"{operation}: {error}; use a smaller one") from None
    return Layout(text, lengths)


def layout_like(operation: str, like: object) -> Layout:
    """Return the Layout of an array."""
    elements = _on_gpu(operation, like) or elements_of(operation, like)
    return Layout(elements.text, elements.shape)


def plain_layout(element: _farwrite.BoxElement, dims: list[int]) -> Layout:
    """Return the Layout of a segment as the server knows it, unchecked."""
    return Layout(_TEXTS.get(element, "|u1"), tuple(dims))


def parse_layout(
    element: _farwrite.BoxElement, dims: list[int], description: bytes, name: str
) -> Layout:
    """Return the Layout of a segment, from what its creator told the server.

    Raises
    ------
    ProtocolError
        If the description is that of an array, and not valid; or NumPy has no such array.
    """
    layout = plain = plain_layout(element, dims)
    try:
        if element is _farwrite.BoxElement.BYTES and description.startswith(b'{"array":'):
            fields = json.loads(description)
            layout = Layout(str(fields["dtype"]), checked_shape("attach", tuple(fields["shape"])))
            if fields["array"] != VERSION or layout.nbytes != plain.nbytes:
                raise ValueError("it does not fit the segment's bytes")
        check_size(layout.shape, layout.itemsize)
    except (Error, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ProtocolError(
            f"attach '{name}': its description is not that of an array: {error}"
        ) from None
    return layout


def elements_of(operation: str, payload: object) -> Elements:
    """View a caller's array as bytes, without a copy.

    Parameters
    ----------
    operation : str
        For error messages: "write".
    payload : array, buffer or DLPack exporter
        C-contiguous, on the CPU or on a GPU. By DLPack also bfloat16.

    Raises
    ------
    InvalidArgument
        As `farwrite.memory.payload.as_array`.
    """
    if type(payload) is np.ndarray:  # not one with a mask
        text = _COMMON.get(payload.dtype)
        if text is not None and payload.flags.c_contiguous:
            return Elements(payload, text, payload.shape)
    elements = _on_gpu(operation, payload)
    if elements is not None:
        assert elements.on_gpu is not None
        _farwrite.copy(elements.data, elements.on_gpu)
        return elements
    own = isinstance(payload, (np.ndarray, RegisteredArray))
    if not own and isinstance(payload, SupportsDLPack):
        return Elements(*view_dlpack(operation, payload))
    array = as_array(operation, payload)
    if array.nbytes == 0:
        return Elements(np.empty(0, np.uint8), _text_of(operation, array), array.shape)
    return Elements(array.reshape(-1).view(np.uint8), _text_of(operation, array), array.shape)


def destination_of(operation: str, payload: object) -> Elements:
    """View a caller's array as `elements_of` does, and check that it is writable."""
    elements = _on_gpu(operation, payload)
    if elements is not None:
        assert elements.on_gpu is not None
        check_writable(operation, elements.on_gpu)
        return elements
    elements = elements_of(operation, payload)
    if not elements.data.flags.writeable and elements.size:
        raise InvalidArgument(
            f"{operation}: the destination is read-only; give a writable array, for example"
            " np.empty(segment.shape, segment.dtype)"
        )
    return elements


def factor_of(
    operation: str, what: str, value: SupportsFloat, layout: Layout, owner: str
) -> int | float:
    """Turn a caller's number into a factor for elements of `layout`, without rounding an integer.

    Parameters
    ----------
    operation, what : str
        For error messages: "fill", "value".
    value : number
        Of Python, NumPy or another library.
    owner : str
        For error messages, what has the elements: "'weights' has".

    Returns
    -------
    int or float
        An int that is a value of the dtype for a dtype of integers, otherwise a float.

    Raises
    ------
    InvalidArgument
        If `value` is not such a number, or the dtype has no arithmetic.
    """
    if layout.element is _farwrite.BoxElement.BYTES:
        raise InvalidArgument(
            f"{operation}: {owner} dtype {layout.name}, which has no arithmetic; use float64,"
            " float32, float16, bfloat16, int64 or int32"
        )
    number: Any = value
    kind = number.dtype.kind if isinstance(number, (np.generic, np.ndarray)) else ""
    # NumPy would drop the imaginary part with no more than a warning.
    if kind == "c":
        raise InvalidArgument(f"{operation}: {what} {shown(value)} is complex; give a real number")
    # float() and int() would parse it.
    if kind in ("S", "U") or isinstance(number, (str, bytes, bytearray)):
        raise InvalidArgument(f"{operation}: {what} {shown(value)} is text; give a number")
    # They would count their own unit, and not ones.
    if kind in ("m", "M"):
        raise InvalidArgument(f"{operation}: {what} {shown(value)} is a time; give a number")
    if layout.text not in ("<i4", "<i8"):
        try:
            return float(number)
        except (TypeError, ValueError, OverflowError):
            raise InvalidArgument(
                f"{operation}: {what} {shown(value)} is not a number of a float's range; give a"
                " float"
            ) from None
    try:
        whole = int(number)
        exact = bool(whole == number)
    except (TypeError, ValueError, OverflowError):  # no number, NaN, infinity
        whole, exact = 0, False
    if not exact:
        raise InvalidArgument(
            f"{operation}: {what} {shown(value)} is not a whole number, and {owner} dtype"
            f" {layout.name}; give a whole number, or use float64"
        )
    limits = np.iinfo(layout.text)
    if not limits.min <= whole <= limits.max:
        raise InvalidArgument(
            f"{operation}: {what} {shown(value)} is not a value of {layout.name}, and {owner} that"
            f" dtype; give a whole number from {limits.min} to {limits.max}, or use float64"
        )
    return whole


def type_name(text: str) -> str:
    """Return the element type for people: "float32" for "<f4"."""
    try:
        dtype = dtype_from_text(text)
    except ProtocolError:  # bfloat16 without ml_dtypes
        return text
    return dtype.name if dtype.isnative else text


def _on_gpu(operation: str, payload: object) -> Elements | None:
    own = payload.array if isinstance(payload, RegisteredArray) else payload
    found = view_on_gpu(operation, own)
    if found is None:
        return None
    return Elements(np.empty(found.memory.size, np.uint8), found.text, found.shape, found.memory)


def _text_of(operation: str, array: npt.NDArray[Any]) -> str:
    try:
        return dtype_to_text(array.dtype)
    except InvalidArgument as error:
        raise InvalidArgument(f"{operation}: {error}") from None


def _dtype_text(operation: str, dtype: object) -> str:
    name = dtype if isinstance(dtype, str) else torch_name(dtype)
    if name == BFLOAT16:  # even when ml_dtypes is missing
        return BFLOAT16
    return dtype_to_text(checked_dtype(operation, dtype))  # type: ignore[arg-type]


_COMMON = {np.dtype(text): text for text in _ARITHMETIC if text != BFLOAT16}
