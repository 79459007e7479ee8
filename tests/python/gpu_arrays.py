"""Arrays on GPUs for tests: their elements, and arrays of other libraries."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import farwrite as fw

COUNT = 1 << 18
"""Float32 elements: 1 MiB, several pieces of a copy."""


def counting(start: int = 0, count: int = COUNT) -> np.ndarray[Any, Any]:
    return np.arange(start, start + count, dtype="float32")


def to_host(array: fw.CudaArray) -> np.ndarray[Any, Any]:
    copied = np.empty(array.shape, array.dtype)
    array.copy_to(copied)
    return copied


class Exporter:
    """An array of another library: DLPack, or __cuda_array_interface__, or both."""

    def __init__(self, array: fw.CudaArray) -> None:
        self.array = array
        self.streams: list[Any] = []


class ByDlpack(Exporter):
    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class ByOlderDlpack(Exporter):
    """Of a library from before read-only arrays."""

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class ByInterface(Exporter):
    changes: ClassVar[dict[str, Any]] = {}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__cuda_array_interface__, **self.changes}
