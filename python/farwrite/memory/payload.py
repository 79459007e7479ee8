"""Views a caller's source or destination as a NumPy array, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import index, shown
from farwrite.errors import InvalidArgument, OutOfRange, ProtocolError
from farwrite.memory.cuda import CudaArray, as_cuda_array, check_writable, dlpack_device
from farwrite.memory.description import dtype_from_text
from farwrite.memory.torch import exporter

if TYPE_CHECKING:
    from farwrite.memory.array import RemoteArray

CPU = 1  # kDLCPU


@runtime_checkable
class SupportsDLPack(Protocol):
    """An array that exports DLPack, for example a PyTorch tensor."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...

    def __dlpack_device__(self) -> tuple[Any, Any]: ...


def as_array(operation: str, payload: object) -> npt.NDArray[Any]:
    """View `payload` as a C-contiguous NumPy array, without a copy.

    Parameters
    ----------
    operation : str
        For error messages: "write".
    payload : array, buffer or DLPack exporter
        A NumPy array, anything with the buffer protocol, or anything on the CPU with
        ``__dlpack__``: see `view_dlpack`.

    Raises
    ------
    InvalidArgument
        If `payload` is another type, is not on the CPU, holds Python objects, has a mask, or is
        not C-contiguous.
    """
    array = payload if isinstance(payload, np.ndarray) else _view(operation, payload)
    check_unmasked(operation, array)
    if array.dtype.hasobject:
        raise InvalidArgument(
            f"{operation}: dtype {array.dtype} holds Python objects, which a peer cannot use;"
            " convert the array to a dtype without objects"
        )
    if not array.flags.c_contiguous:
        raise InvalidArgument(
            f"{operation}: the array of shape {array.shape} and strides {array.strides} is not"
            " C-contiguous; to send it, give np.ascontiguousarray(x), a copy; to receive into it,"
            " give y = np.empty(x.shape, x.dtype), and then copy: x[...] = y"
        )
    return array


def check_unmasked(operation: str, array: npt.NDArray[Any]) -> None:
    """Refuse a masked array."""
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise InvalidArgument(
            f"{operation}: the mask of a masked array is not moved; give x.data, its elements"
            " whether masked or not, or x.filled(value), a copy"
        )


def as_payload(operation: str, payload: object) -> npt.NDArray[Any] | CudaArray:
    """View `payload` as `as_array` does, or as an array on a GPU.

    Raises
    ------
    InvalidArgument
        As `as_array`; an array on a GPU must be C-contiguous, too.
    Unavailable
        If the array is on a GPU, and the CUDA driver cannot be opened.
    """
    registered = getattr(payload, "array", None)
    if isinstance(registered, CudaArray) and hasattr(payload, "descriptor"):
        payload = registered
    on_gpu = as_cuda_array(operation, payload)
    return as_array(operation, payload) if on_gpu is None else on_gpu


def as_destination(operation: str, payload: object) -> npt.NDArray[Any] | CudaArray:
    """View `payload` as `as_payload` does, and check that the array is writable.

    Raises
    ------
    InvalidArgument
        As `as_payload`, or if the array is read-only.
    """
    array = as_payload(operation, payload)
    if isinstance(array, CudaArray):
        check_writable(operation, array.native)
        return array
    if not array.flags.writeable:
        raise InvalidArgument(
            f"{operation}: the destination is read-only; give a writable array, for example"
            f" np.empty({array.shape}, {array.dtype.str!r})"
        )
    return array


def as_buffer(array: npt.NDArray[Any] | CudaArray) -> npt.NDArray[Any] | _farwrite.CudaBytes:
    """View `array` as the core takes it.

    Dates, foreign types and fields that are not in their order lack the buffer protocol.
    """
    if isinstance(array, CudaArray):
        return array.native
    kind = array.dtype
    if kind.kind in "mM" or kind.isbuiltin == 2 or (kind.names and kind.itemsize):
        return array.reshape(-1).view(np.uint8)
    return array


def byte_offset(
    operation: str, array: npt.NDArray[Any] | CudaArray, remote: RemoteArray, offset: SupportsIndex
) -> int:
    """Check that `array` fits into `remote` at element `offset`, and return the offset in bytes.

    Raises
    ------
    InvalidArgument
        If the element types differ, or the shapes do not match.
    OutOfRange
        If the elements exceed the bounds of the remote array.
    """
    start = index(operation, "offset", offset)
    if array.dtype != remote.dtype:
        raise InvalidArgument(
            f"{operation}: '{remote.name}' has dtype {remote.dtype} and the local array has dtype"
            f" {array.dtype}; convert it with x.astype('{remote.dtype.str}') or view it"
            " as that type"
        )
    # One dimension is a run of elements; more must match from behind, so that rows meet rows.
    inner = array.shape[1:]
    if inner and (array.ndim > len(remote.shape) or remote.shape[-len(inner) :] != inner):
        raise InvalidArgument(
            f"{operation}: '{remote.name}' has shape {remote.shape} and the local array has shape"
            f" {array.shape}; give whole rows of '{remote.name}', or x.reshape(-1) for consecutive"
            " elements"
        )
    if start < 0 or start + array.size > remote.size:
        raise OutOfRange(
            f"{operation}: {array.size} elements at offset {shown(start)} exceed the bounds of"
            f" '{remote.name}', which has shape {remote.shape} and {remote.size} elements;"
            " change the offset or give fewer elements"
        )
    return start * remote.dtype.itemsize


def _view(operation: str, payload: object) -> npt.NDArray[Any]:
    registered = getattr(payload, "array", None)
    if isinstance(registered, np.ndarray) and hasattr(payload, "descriptor"):
        return registered
    try:
        return np.asarray(memoryview(payload))  # type: ignore[arg-type]
    except TypeError:
        pass  # not a buffer; DLPack is the other way in
    except ValueError as error:
        raise InvalidArgument(
            f"{operation}: NumPy cannot view the buffer ({error}); give one that is in use"
        ) from None
    if isinstance(payload, str):
        raise InvalidArgument(f"{operation}: str is text, not bytes; give text.encode()")
    if not isinstance(payload, SupportsDLPack):
        raise InvalidArgument(
            f"{operation}: {type(payload).__name__} is neither an array, a buffer nor a DLPack"
            " exporter; pass a NumPy array"
        )
    data, text, shape = view_dlpack(operation, payload)
    return np.ndarray(shape, _numpy_dtype(operation, text), buffer=data)  # type: ignore[arg-type,unused-ignore]


def view_dlpack(
    operation: str, payload: SupportsDLPack
) -> tuple[npt.NDArray[np.uint8], str, tuple[int, ...]]:
    """View a DLPack exporter without a copy: its bytes, its element type as text, and its shape.

    A PyTorch tensor that records gradients is viewed as it is now.

    Raises
    ------
    InvalidArgument
        If `payload` is not on the CPU, not C-contiguous or not exported, or NumPy has no name for
        its element type.
    """
    device, _ = dlpack_device(operation, payload)
    if device != CPU:
        raise InvalidArgument(
            f"{operation}: the array is in the memory of DLPack device type {device}; copy it to"
            " the CPU first, for example with x.cpu()"
        )
    source, name = exporter(operation, payload)
    if name:
        _numpy_dtype(operation, name)
    data, text, shape = _farwrite.view_dlpack(operation, source)
    return cast("npt.NDArray[np.uint8]", data), name or text, shape


def _numpy_dtype(operation: str, text: str) -> np.dtype[Any]:
    try:
        return dtype_from_text(text)
    except ProtocolError:
        raise InvalidArgument(
            f"{operation}: NumPy has no {text} without the package ml_dtypes; install it (pip"
            " install ml_dtypes), or view the array as an unsigned integer of that size"
        ) from None
