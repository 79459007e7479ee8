"""Memory of the user's own, registered with a device for longer than one transfer."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from farwrite import _farwrite
from farwrite.payload import as_array, as_buffer


class MemoryRegistration:
    """Keeps memory registered until it is released. Made by `Device.register`.

    A context manager that releases at the end. It holds the array, so the memory stays.

    Parameters are internal: use `Device.register`.
    """

    def __init__(self, device: _farwrite.Device, memory: object) -> None:
        array = as_array("register", memory)
        self._native = _farwrite.MemoryRegistration(
            device, as_buffer(array.reshape(-1).view(np.uint8)), array.flags.writeable
        )

    @property
    def nbytes(self) -> int:
        """Bytes that are registered; 0 once released."""
        return self._native.size()

    @property
    def has_effect(self) -> bool:
        """Whether an RDMA adapter has registered it. The other fabrics have no use for that."""
        return self._native.has_effect()

    def release(self) -> None:
        """Let go now. Transfers under way keep what they need. Releasing twice is fine."""
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

    def __repr__(self) -> str:
        return f"<MemoryRegistration of {self.nbytes} bytes>"
