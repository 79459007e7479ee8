"""MemoryRegistration: memory of the caller, registered with a device for many transfers."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from farwrite import _farwrite
from farwrite.lifetime.handle import Handle
from farwrite.memory.payload import as_array, as_buffer


class MemoryRegistration(
    Handle, elsewhere="register memory of the other process there: device.register(array)"
):
    """Keeps the caller's memory registered with a device. `Device.register` creates it.

    A context manager: the end of the ``with`` block releases the registration. The object holds a
    reference to the array, so the memory stays allocated.

    The constructor is internal: use `Device.register`.
    """

    def __init__(self, device: _farwrite.Device, memory: object) -> None:
        self._released = False
        array = as_array("register", memory)
        self._native = _farwrite.MemoryRegistration(
            device, as_buffer(array.reshape(-1).view(np.uint8)), array.flags.writeable
        )

    @property
    def nbytes(self) -> int:
        """The registered bytes; 0 after `release`."""
        return self._native.size()

    @property
    def has_effect(self) -> bool:
        """Whether an RDMA adapter has registered the memory. Other fabrics need no registration."""
        return self._native.has_effect()

    def release(self) -> None:
        """End the registration. Transfers in flight keep theirs. Releasing twice is allowed."""
        self._released = True
        self._native.release()

    def __enter__(self) -> MemoryRegistration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def _facts(self) -> str:
        return f"of {self.nbytes} bytes"

    def _state(self) -> str:
        return "released" if self._released else ""
