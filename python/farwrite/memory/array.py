"""Arrays in registered memory: `RegisteredArray` in this process, `RemoteArray` at a peer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import instance, seconds, shown, text
from farwrite.errors import Error, InvalidArgument, ResourceExhausted
from farwrite.lifetime.handle import Handle
from farwrite.memory.cuda import CudaArray
from farwrite.memory.description import Shape, checked_dtype, checked_shape, count_bytes, describe

if TYPE_CHECKING:
    from farwrite.channel import Channel
    from farwrite.memory.payload import SupportsDLPack

Access = Literal["read", "write"]
MOST_BYTES = 2**63 - 1


def as_numpy(
    array: npt.NDArray[Any], dtype: npt.DTypeLike | None, copy: bool | None
) -> npt.NDArray[Any]:
    """Return what ``__array__(dtype, copy)`` returns for an object with these elements."""
    if copy:
        return np.array(array, dtype=dtype, copy=True)
    if dtype is not None and np.dtype(dtype) != array.dtype:
        if copy is False:
            raise ValueError(f"cannot convert {array.dtype} to {np.dtype(dtype)} without a copy")
        return array.astype(dtype)
    return array


class RegisteredArray(
    Handle,
    elsewhere="pickle a copy, x.array.copy(), or publish it and look it up in the other process",
):
    """An array in memory that peers can access.

    `Device.allocate` and `Channel.allocate` create it. The memory exists as long as this object or
    any NumPy view of it, even after the device is closed. The object does not keep the device or
    the channel open, through which peers reach the memory: keep these.

    The constructor is internal: use the `allocate` methods.
    """

    def __init__(
        self, region: _farwrite.MemoryRegion, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._region = region
        self._closed = False
        self._array: npt.NDArray[Any] | CudaArray = (
            CudaArray(region.view_cuda(), shape, dtype)
            if region.on_gpu()
            else np.ndarray(shape, dtype, buffer=region.view())
        )

    @classmethod
    def allocate(
        cls, allocate: Callable[[int], _farwrite.MemoryRegion], shape: Shape, dtype: npt.DTypeLike
    ) -> RegisteredArray:
        """Create an array in memory from `allocate`, which takes a number of bytes. Internal."""
        lengths, element = checked_shape("allocate", shape), checked_dtype("allocate", dtype)
        needed = max(count_bytes(lengths, element), 1)
        if needed > MOST_BYTES:
            raise ResourceExhausted(
                f"allocate: shape {shown(lengths)} of {element} needs more bytes than any"
                " machine has; allocate less"
            )
        try:
            return cls(allocate(needed), lengths, element)
        except ValueError as error:
            if isinstance(error, Error):
                raise
            raise InvalidArgument(
                f"allocate: NumPy cannot create an array of shape {shown(lengths)} ({error}); give"
                " fewer dimensions, or smaller ones"
            ) from None

    @property
    def array(self) -> Any:
        """The view of the registered memory: writable, C order, 64-byte aligned, no copy.

        A `numpy.ndarray`, or a `CudaArray` for memory on a GPU.
        """
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._array.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.nbytes

    @property
    def access(self) -> Access:
        """What peers may do with the array: "read", which includes alias, or "write"."""
        return cast("Access", self._region.access())

    @property
    def descriptor(self) -> bytes:
        """The bytes that a peer passes to `Channel.open`. They contain the device's epoch."""
        return self._region.descriptor()

    def publish_with(
        self, publish: Callable[[str, _farwrite.MemoryRegion, str], None], name: str
    ) -> None:
        """Publish the array under `name` with `publish`, of a device or channel. Internal."""
        publish(text("publish", "name", name), self._region, describe(self.shape, self.dtype))

    def close(self, timeout: float | None = 1.0) -> None:
        """End the peers' access. The memory stays valid in this process.

        If a peer may write the array, `close` returns only when no later byte of the peer can
        arrive. Closing twice is allowed.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for the peer to settle; None waits for ever.

        Raises
        ------
        PeerSilent
            If the peer did not settle in time. The memory stays quarantined until it does.
        """
        limit = seconds("close", timeout)
        self._closed = True
        self._region.close(limit)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if isinstance(self._array, CudaArray):
            return cast("npt.NDArray[Any]", self._array.__array__())
        return as_numpy(self._array, dtype, copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __len__(self) -> int:
        return len(self._array)

    def _facts(self) -> str:
        return f"{self.dtype} {self.shape}"

    def _state(self) -> str:
        return "closed to peers" if self._closed else f"peers may {self.access}"


def registered(array: RegisteredArray) -> RegisteredArray:
    """Check that `array` can be published."""
    source = (
        "create one with Device.allocate or Channel.allocate, and copy the elements into its .array"
    )
    return instance("publish", array, RegisteredArray, source)


class RemoteArray(Handle, elsewhere="look it up in the other process: channel.lookup(name)"):
    """A peer's array. `Channel.lookup`, `Channel.lookup_bytes` and `Channel.open` create it.

    The object holds a lease: the owner does not reuse the memory while this object or an alias of
    it exists. It keeps its channel open.

    The constructor is internal: use the methods of `Channel`.
    """

    def __init__(
        self,
        channel: Channel,
        region: _farwrite.RemoteRegion,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self._channel = channel
        self.native = region
        """The core's handle. Internal."""
        self._name = name
        self._shape = shape
        self._dtype = dtype
        if dtype.isbuiltin == 1 and dtype.isnative and dtype.kind in "biufc":  # has one format
            region.lay_out(np.empty(0, dtype).data.format, dtype.itemsize, shape)

    @property
    def name(self) -> str:
        """The name given to `Channel.lookup`, or "region" for an array from `Channel.open`."""
        return self._name

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions, as published or as given to `Channel.open`."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type, as published or as given to `Channel.open`."""
        return self._dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self._shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self._dtype.itemsize

    @property
    def access(self) -> Access:
        """What this process may do with the array: "read", which includes alias, or "write"."""
        return cast("Access", self.native.access())

    @property
    def descriptor(self) -> bytes:
        """The bytes that `Channel.open` takes."""
        return self.native.descriptor()

    def read(
        self,
        out: npt.NDArray[Any] | SupportsDLPack | None = None,
        *,
        offset: SupportsIndex = 0,
        timeout: float | None = None,
    ) -> Any:
        """Read the peer's elements into local memory, and wait until they have arrived.

        Parameters
        ----------
        out : array, optional
            The destination; see `Channel.read`. By default a new array of this shape.
        offset : int
            Index of the first element to read, in C order.
        timeout : float or None
            Seconds; None waits for ever.

        Returns
        -------
        out, or the new array

        Raises
        ------
        Error
            As `Channel.read`, or what `Completion.wait` raises.
        """
        limit = seconds("read", timeout)
        destination = np.empty(self._shape, self._dtype) if out is None else out
        self._channel.read(self, destination, offset=offset).wait(limit)
        return destination

    def alias(self) -> Any:
        """Return a read-only view of the peer's memory, without a copy.

        The view shows later writes of the peer; synchronize with notifications. The view may
        outlive the channel and the peer. The owner does not reuse the memory while any view of it
        exists. After the peer's death, the view keeps the last contents.

        Returns
        -------
        numpy.ndarray, or CudaArray for an array on a GPU
            Of this shape and dtype, not writable.

        Raises
        ------
        PermissionDenied
            If peers may only write the array.
        Unsupported
            If the channel's fabric cannot map the peer's memory.
        Cancelled
            If this side has closed the channel, and no view was made before.
        """
        if self.native.on_gpu():
            memory = self._channel.native.alias_cuda(self.native, 0, self.nbytes)
            return CudaArray(memory, self._shape, self._dtype)
        data = self._channel.native.alias(self.native, 0, self.nbytes)
        return np.ndarray(self._shape, self._dtype, buffer=cast("Any", data))

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f"NumPy cannot view '{self._name}', which is the peer's: read it, x.read(), or make a"
            " view of it, x.alias()"
        )

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of an array without dimensions")
        return self._shape[0]

    def _facts(self) -> str:
        return f"'{self._name}' {self._dtype} {self._shape}, to {self.access}"
