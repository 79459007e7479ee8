"""A box in the memory of this process: what the training classes use of a client."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

import farwrite as fw


class FakeUpdate:
    def __init__(self, outcome: int) -> None:
        self.outcome = outcome

    def done(self) -> bool:
        return True

    def wait(self, timeout: float | None = None) -> int:
        return self.outcome


class FakePosted:
    def __init__(self, segment: FakeSegment) -> None:
        self.segment = segment

    def _apply(self, change: Any) -> FakeUpdate:
        memory = self.segment.memory
        with memory.changed:
            change(memory.data)
            memory.version += 1
            memory.changed.notify_all()
            return FakeUpdate(memory.version)

    def write(self, source: Any) -> FakeUpdate:
        return self._apply(lambda data: np.copyto(data, source))

    def fill(self, value: float) -> FakeUpdate:
        return self._apply(lambda data: data.fill(value))

    def accumulate(self, delta: Any, scale: float = 1.0, start: int = 0) -> FakeUpdate:
        def add(data: Any) -> None:
            data[start : start + delta.size] += data.dtype.type(scale) * delta

        return self._apply(add)


class FakeMemory:
    def __init__(self, shape: Any, dtype: Any) -> None:
        self.data = np.zeros(shape, dtype)
        self.version = 0
        self.changed = threading.Condition()


class FakeSegment:
    def __init__(self, client: FakeClient, memory: FakeMemory) -> None:
        self.client = client
        self.memory = memory
        self.shape = memory.data.shape
        self.dtype = memory.data.dtype
        self.post = FakePosted(self)

    @property
    def version(self) -> int:
        return self.memory.version

    def wait(self, version: int, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        with self.memory.changed:
            while self.memory.version < version:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise fw.DeadlineExceeded("wait: the timeout passed")
                self.memory.changed.wait(left)
            return self.memory.version

    def read_with_version(
        self,
        out: Any = None,
        *,
        consistent: str = "segment",
        min_version: int = 0,
        timeout: float | None = None,
    ) -> tuple[Any, int]:
        assert consistent in ("segment", "chunk")
        self.wait(min_version, timeout)
        with self.memory.changed:
            if out is None:
                out = np.empty_like(self.memory.data)
            np.copyto(out, self.memory.data)
            return out, self.memory.version

    def read(self, out: Any = None, **options: Any) -> Any:
        return self.read_with_version(out, **options)[0]

    def detach(self) -> None:
        pass


class FakeArray:
    def __init__(self, array: Any) -> None:
        self.array = array


class FakeClient:
    def __init__(self, box: FakeBox) -> None:
        self.box = box

    def create(self, name: str, shape: Any, dtype: Any, exclusive: bool = True) -> FakeSegment:
        with self.box.lock:
            if exclusive and name in self.box.memories:
                raise fw.AlreadyExists(f"create '{name}': the name is taken")
            memory = self.box.memories.setdefault(name, FakeMemory(shape, dtype))
        if memory.data.shape != shape or memory.data.dtype != dtype:
            raise fw.InvalidArgument(f"create '{name}': another shape")
        return FakeSegment(self, memory)

    def attach(self, name: str, timeout: float | None = 0) -> FakeSegment:
        with self.box.lock:
            if name not in self.box.memories:
                raise fw.NotFound(f"attach '{name}': no such segment")
            return FakeSegment(self, self.box.memories[name])

    def array(self, shape: Any, dtype: Any) -> Any:
        return FakeArray(np.zeros(shape, dtype))


class FakeBox:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.memories: dict[str, FakeMemory] = {}
