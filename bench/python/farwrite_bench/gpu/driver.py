"""The CUDA driver for the benchmark's limits: copies in one process, each waited for by an event.

Only what ``farwrite bench gpu`` compares with; Farwrite itself opens the driver in C++.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Callable
from typing import Any

from farwrite.errors import Unavailable

_UNTIMED = 2
_NON_BLOCKING = 1
_PORTABLE = 1
_WRITABLE_AND_READABLE = mmap.PROT_READ | mmap.PROT_WRITE


class Driver:
    """A GPU's primary context, current in the thread that makes this object. Not thread-safe."""

    def __init__(self, ordinal: int = 0) -> None:
        name = os.environ.get("FARWRITE_CUDA_LIBRARY") or "libcuda.so.1"
        try:
            self._library = ctypes.CDLL(name)
        except OSError as error:
            raise Unavailable(
                f"bench gpu: {name} cannot be opened: {error}; install NVIDIA's driver, or run it"
                " on a machine with a GPU"
            ) from None
        self._call("cuInit", ctypes.c_uint(0))
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), ctypes.c_int(ordinal))
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxPushCurrent_v2", context)
        self._stream, self._event = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(self._stream), ctypes.c_uint(_NON_BLOCKING))
        self._call("cuEventCreate", ctypes.byref(self._event), ctypes.c_uint(_UNTIMED))
        self._closing: list[Callable[[], None]] = []

    def name(self) -> str:
        """Return the name of the GPU."""
        text = ctypes.create_string_buffer(128)
        self._call("cuDeviceGetName", text, ctypes.c_int(128), self._device)
        return text.value.decode()

    def memory(self, size: int) -> int:
        """Allocate memory of the GPU, until `close`; return its address."""
        address = ctypes.c_ulonglong()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self._closing.append(lambda: self._call("cuMemFree_v2", address))
        return address.value

    def pinned(self, size: int) -> int:
        """Map host memory that is registered with the driver, until `close`; return its address."""
        pages = mmap.mmap(-1, size, prot=_WRITABLE_AND_READABLE)
        holder = ctypes.c_char.from_buffer(pages)
        address = ctypes.addressof(holder)
        ctypes.memset(address, 0, size)
        self._call(
            "cuMemHostRegister_v2",
            ctypes.c_void_p(address),
            ctypes.c_size_t(size),
            ctypes.c_uint(_PORTABLE),
        )

        def release() -> None:
            nonlocal holder
            self._call("cuMemHostUnregister", ctypes.c_void_p(address))
            del holder
            pages.close()

        self._closing.append(release)
        return address

    def copy(self, destination: int, source: int, size: int) -> None:
        """Copy between two addresses of any kind, and wait for the copy's event."""
        self._call(
            "cuMemcpyAsync",
            ctypes.c_ulonglong(destination),
            ctypes.c_ulonglong(source),
            ctypes.c_size_t(size),
            self._stream,
        )
        self._call("cuEventRecord", self._event, self._stream)
        self._call("cuEventSynchronize", self._event)

    def time_copies(self, destination: int, source: int, size: int, transfers: int) -> float:
        """Make copies one after another, and return the seconds that they took."""
        start = time.perf_counter()
        for _ in range(transfers):
            self.copy(destination, source, size)
        return time.perf_counter() - start

    def close(self) -> None:
        """Give back everything but the context, which the process keeps."""
        while self._closing:
            self._closing.pop()()
        self._call("cuEventDestroy_v2", self._event)
        self._call("cuStreamDestroy_v2", self._stream)

    def _call(self, function: str, *arguments: Any) -> None:
        result = getattr(self._library, function)(*arguments)
        if result:
            name = ctypes.c_char_p()
            self._library.cuGetErrorName(ctypes.c_int(result), ctypes.byref(name))
            text = name.value.decode() if name.value else str(result)
            raise Unavailable(
                f"bench gpu: {function} failed: {text}; see the GPU's state with `nvidia-smi`"
            )
