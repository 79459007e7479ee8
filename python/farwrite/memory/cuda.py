"""Arrays in the memory of a CUDA GPU: `CudaArray`, and the views of other libraries' arrays."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import shown, whole_number
from farwrite.errors import InvalidArgument, ProtocolError
from farwrite.lifetime.handle import Handle
from farwrite.memory.description import (
    check_size,
    checked_dtype,
    checked_shape,
    dtype_from_text,
    dtype_to_text,
)
from farwrite.memory.torch import exporter

CUDA = 2
"""kDLCUDA."""
_LEGACY_DEFAULT_STREAM = 1
# What exporters raise. Another exception may be that of a signal handler.
_EXPORTS_FAIL = (BufferError, TypeError, RuntimeError, ValueError)


class CudaArray(
    Handle,
    elsewhere="pickle a library's view of it, or publish its RegisteredArray and look that up",
):
    """An array on a GPU, in C order. It holds no copy: other libraries view the same memory.

    ``torch.from_dlpack(x)``, ``cupy.from_dlpack(x)`` or ``cupy.asarray(x)`` and
    ``jax.dlpack.from_dlpack(x)`` give an array of the library, which keeps the memory alive.
    Farwrite's transfers are over when they are done, so that work which starts afterwards needs no
    synchronization. Before a transfer, Farwrite waits for the default stream. Synchronize other
    streams first, or pass the library's own array, which tells its stream.

    The constructor is internal: `RegisteredArray.array` and `RemoteArray.alias` give one.
    """

    def __init__(
        self,
        memory: _farwrite.CudaBytes,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        base: CudaArray | None = None,
    ) -> None:
        self._memory = memory
        self._shape = shape
        self._dtype = dtype
        # Of the whole array, whatever part of it this is.
        self._views: list[bool] = [False] if base is None else base._views

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self._shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self._dtype.itemsize

    @property
    def device(self) -> str:
        """The GPU, as this process numbers them: ``cuda:0``."""
        return f"cuda:{self._memory.ordinal}"

    @property
    def writable(self) -> bool:
        """Whether this process may write them. A kernel that writes others ends its context."""
        return self._memory.writable

    def copy_from(self, source: npt.NDArray[Any] | CudaArray) -> None:
        """Copy the elements of `source`, an array of the same type and size, to this array.

        Raises
        ------
        InvalidArgument
            If `source` is no array of NumPy or on a GPU, or another one, or this one is read-only.
        """
        check_writable("copy_from", self.native)
        _farwrite.copy(self._memory, _checked_copy("copy_from", self, source))

    def copy_to(self, destination: npt.NDArray[Any] | CudaArray) -> None:
        """Copy the elements to `destination`, an array of the same type and size.

        Raises
        ------
        InvalidArgument
            If `destination` is no writable array of NumPy or on a GPU, or another one.
        """
        if isinstance(destination, CudaArray):
            check_writable("copy_to", destination.native)
        elif isinstance(destination, np.ndarray) and not destination.flags.writeable:
            raise InvalidArgument("copy_to: the destination is read-only; give a writable array")
        _farwrite.copy(_checked_copy("copy_to", self, destination), self._memory)

    @property
    def native(self) -> _farwrite.CudaBytes:
        """The core's handle. Internal."""
        return self._memory

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the interface, without a stream: all transfers are over."""
        self._views[0] = True
        return {
            "shape": self._shape,
            "typestr": self._dtype.str,
            "data": (self._memory.address, not self._memory.writable),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def __dlpack__(self, **options: Any) -> Any:
        self._views[0] = True
        text = dtype_to_text(self._dtype)
        # Nothing of Farwrite is under way on any stream.
        options.pop("stream", None)
        exporter = self._memory.export_dlpack(text, list(self._shape))
        return exporter.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self._memory.ordinal

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "the array is on a GPU, and NumPy cannot view it; copy it, for example with"
            " torch.from_dlpack(x).cpu().numpy()"
        )

    def __getitem__(self, rows: slice) -> CudaArray:
        """View consecutive elements of the first dimension, without a copy: ``x[10:20]``."""
        if not isinstance(rows, slice) or rows.step not in (None, 1) or not self._shape:
            raise TypeError("a CudaArray takes a slice without a step; other views are PyTorch's")
        first, end, _ = rows.indices(self._shape[0])
        shape = (max(end - first, 0), *self._shape[1:])
        row = math.prod(self._shape[1:]) * self._dtype.itemsize
        memory = _farwrite.view_cuda_memory(
            self._memory.address + first * row,
            shape[0] * row,
            self._memory.ordinal,
            self._memory.writable,
            self._memory,
        )
        return CudaArray(memory, shape, self._dtype, self)

    def wait_for_views(self) -> None:
        """Wait for the default stream if another library may have a view of the memory."""
        if self._views[0]:
            _farwrite.wait_for_stream(self._memory.ordinal, _LEGACY_DEFAULT_STREAM)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of an array without dimensions")
        return self._shape[0]

    def __repr__(self) -> str:
        return f"<CudaArray {self._dtype} {self._shape} on {self.device}>"


def _checked_copy(
    operation: str, own: CudaArray, other: npt.NDArray[Any] | CudaArray
) -> npt.NDArray[Any] | _farwrite.CudaBytes:
    if not isinstance(other, (np.ndarray, CudaArray)):
        raise InvalidArgument(
            f"{operation}: {type(other).__name__} is neither an array of NumPy nor a CudaArray;"
            " give one, for example np.asarray(x)"
        )
    if other.dtype != own.dtype or other.size != own.size:
        raise InvalidArgument(
            f"{operation}: {other.size} elements of {other.dtype} do not match {own.size} of"
            f" {own.dtype}"
        )
    own.wait_for_views()
    if isinstance(other, CudaArray):
        other.wait_for_views()
        return other.native
    if not other.flags.c_contiguous:
        raise InvalidArgument(
            f"{operation}: the array is not C-contiguous; move a contiguous copy from here, or fill"
            " a contiguous array and then copy it"
        )
    return other.reshape(-1).view(np.uint8)


class OnGpu(NamedTuple):
    """An array on a GPU, as its library exports it."""

    memory: _farwrite.CudaBytes
    text: str
    """The element type, as farwrite.memory.description writes it."""
    shape: tuple[int, ...]


def dlpack_device(operation: str, payload: Any) -> tuple[int, int]:
    """Return the kind and the number of the device on which a DLPack exporter's memory is.

    Raises
    ------
    InvalidArgument
        If ``__dlpack_device__`` returns anything but two whole numbers.
    """
    try:
        device = payload.__dlpack_device__()
    except _EXPORTS_FAIL as error:  # PyTorch has no device for "meta"
        raise InvalidArgument(
            f"{operation}: the array has no device of DLPack ({error}); copy it to the CPU first"
        ) from None
    try:
        kind, ordinal = device
        return int(kind), int(ordinal)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(
            f"{operation}: __dlpack_device__() returned {shown(device)} instead of two whole"
            " numbers; give a NumPy array"
        ) from None


def view_on_gpu(operation: str, payload: object) -> OnGpu | None:
    """View `payload` as an array on a GPU, without a copy; None if it is not on one.

    Waits until the work that its library has queued for the array is over: the stream semantics of
    DLPack and of ``__cuda_array_interface__``.

    Raises
    ------
    InvalidArgument
        If the array is not C-contiguous, or has an element type that NumPy lacks.
    Unavailable
        If the CUDA driver cannot be opened.
    """
    if isinstance(payload, np.ndarray):
        return None
    if isinstance(payload, CudaArray):
        payload.wait_for_views()
        return OnGpu(payload.native, dtype_to_text(payload.dtype), payload.shape)
    if hasattr(payload, "__dlpack__") and hasattr(payload, "__dlpack_device__"):
        kind, ordinal = dlpack_device(operation, payload)
        return _from_dlpack(operation, payload, ordinal) if kind == CUDA else None
    try:
        interface = getattr(payload, "__cuda_array_interface__", None)
    except _EXPORTS_FAIL as error:
        raise InvalidArgument(
            f"{operation}: the array has no __cuda_array_interface__ now ({error}); give one that"
            " has"
        ) from None
    return None if interface is None else _from_interface(operation, payload, interface)


def check_writable(operation: str, memory: _farwrite.CudaBytes) -> None:
    """Raise InvalidArgument if the array that is a destination is read-only."""
    if not memory.writable:
        raise InvalidArgument(
            f"{operation}: the destination on the GPU is read-only; give a writable array"
        )


def as_cuda_array(operation: str, payload: object) -> CudaArray | None:
    """View `payload` as `view_on_gpu` does, with the element type of NumPy."""
    if isinstance(payload, CudaArray):
        payload.wait_for_views()
        return payload
    found = view_on_gpu(operation, payload)
    if found is None:
        return None
    try:
        return CudaArray(found.memory, found.shape, dtype_from_text(found.text))
    except ProtocolError:
        raise InvalidArgument(
            f"{operation}: NumPy has no {found.text} here; install ml_dtypes, or view the array as"
            " an unsigned integer of that size"
        ) from None


def _from_dlpack(operation: str, payload: Any, ordinal: int) -> OnGpu:
    _farwrite.use_cuda()
    payload, name = exporter(operation, payload)
    try:
        # The exporter makes that stream wait for its own.
        try:
            capsule = payload.__dlpack__(stream=_LEGACY_DEFAULT_STREAM, max_version=(1, 0))
        except TypeError:  # older than read-only arrays
            capsule = payload.__dlpack__(stream=_LEGACY_DEFAULT_STREAM)
    except _EXPORTS_FAIL as error:
        raise InvalidArgument(
            f"{operation}: the array does not export DLPack ({error}); give one that does"
        ) from None
    memory, text, shape = _farwrite.view_cuda_dlpack(operation, capsule)
    _farwrite.wait_for_stream(ordinal, _LEGACY_DEFAULT_STREAM)
    return OnGpu(memory, name or text, shape)


def _from_interface(operation: str, payload: object, interface: dict[str, Any]) -> OnGpu:
    _farwrite.use_cuda()
    try:
        shape = checked_shape(operation, tuple(interface["shape"]))
        dtype = checked_dtype(operation, str(interface["typestr"]))
        check_size(shape, dtype.itemsize)
        address, read_only = interface["data"][0], bool(interface["data"][1])
        address = whole_number(operation, "the address", address, 0, 2**64 - 1)
        strides = interface.get("strides")
        contiguous = strides is None or _contiguous(shape, tuple(strides), dtype.itemsize)
        # Version 3: a number, or None for no wait. Earlier ones have no streams.
        stream = interface.get("stream", _LEGACY_DEFAULT_STREAM)
        if stream is not None:
            stream = whole_number(operation, "the stream", stream, 0, 2**64 - 1)
    except (InvalidArgument, IndexError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"{operation}: __cuda_array_interface__ is malformed ({error!r}); give another array"
        ) from None
    if interface.get("mask") is not None or stream == 0:
        raise InvalidArgument(
            f"{operation}: __cuda_array_interface__ has a mask, or stream 0; give an array without"
            " a mask, on a stream that the interface allows"
        )
    if not contiguous:
        raise InvalidArgument(
            f"{operation}: the array of shape {shape} and strides {strides} is not C-contiguous;"
            " move a contiguous copy from here, or fill a contiguous array and then copy it"
        )
    size = math.prod(shape) * dtype.itemsize
    # An empty array has no memory.
    ordinal = _farwrite.gpu_of(operation, address) if size else 0
    if size and stream is not None:
        _farwrite.wait_for_stream(ordinal, stream)
    memory = _farwrite.view_cuda_memory(address, size, ordinal, not read_only, payload)
    return OnGpu(memory, dtype_to_text(dtype), shape)


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    step = itemsize
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length == 0:
            return True
        if length != 1 and stride != step:
            return False
        step *= length
    return True
