"""Ways to hand a model to many readers on one host: over a box, a file, or shared memory.

A publisher and its readers count versions from 1 on. Every element of version n is n, so a reader
detects an old or a torn version.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import tempfile
import time
from collections.abc import Callable
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from farwrite import box
from farwrite.errors import DeadlineExceeded, FailedPrecondition
from farwrite_bench._native import copy
from farwrite_bench.box.emulator import sleep_until
from farwrite_bench.box.orders import Checked, Open, Ran, Start
from farwrite_bench.box.pages import floats
from farwrite_bench.sizes import MIB

Floats = npt.NDArray[np.float32]

NAP_SECONDS = 200e-6
"""Between two checks of a reader that has no events to wait for."""
WAIT_SECONDS = 60.0
COUNTER_BYTES = 4096
"""The bytes before the model in shared memory: a page that holds the version."""
BUFFERS = 3
SPARE_BYTES = 128 * MIB
"""Memory of a box besides its segments: the pool that it takes at its start, and its records."""
NAME = "model"


def has_torch() -> bool:
    """Whether PyTorch is installed."""
    return importlib.util.find_spec("torch") is not None


class Publisher:
    """Publishes the next version at each start; `publish` takes its number and its elements."""

    def __init__(self, order: Open, publish: Callable[[int, Floats], object]) -> None:
        self._model = floats(order.bytes // 4, 0)
        self._other = floats(order.bytes // 4, 0)
        self._publish = publish
        self._version = 0

    def run(self, order: Start) -> Ran:
        """Publish one version. The answer has the time of one streaming copy of as many bytes."""
        self._version += 1
        self._model.fill(self._version)
        start = time.perf_counter()
        copy(self._other.view(np.uint8), self._model.view(np.uint8))
        streamed = time.perf_counter() - start
        sleep_until(order.moment)
        began = time.perf_counter()
        self._publish(self._version, self._model)
        return Ran(began, time.perf_counter(), [streamed])


class Reader:
    """Waits for the next version at each start; `look` returns its first and last element."""

    def __init__(self, look: Callable[[int], tuple[float, float]], close: Callable[[], object]):
        self._look, self._close = look, close
        self._version = 0

    def run(self, order: Start) -> Ran:
        """Wait until the next version is visible."""
        self._version += 1
        began = time.perf_counter()
        seen = self._look(self._version)
        ended = time.perf_counter()
        expected = float(self._version)
        if seen != (expected, expected):
            raise FailedPrecondition(
                f"bench box: a reader saw {seen} instead of version {self._version}; report this"
            )
        return Ran(began, ended)

    def check(self) -> Checked:
        """Return no figures: `run` checks each version."""
        return Checked(0.0, 0.0)

    def close(self) -> None:
        """Free the memory."""
        self._close()


Published = tuple[Publisher, str, Callable[[], object]]
"""The publisher, the place where its readers find it, and the function that ends it."""


def box_publisher(order: Open) -> Published:
    """Publish from the process that serves, which fills the new version itself."""
    server = box.serve(memory=(BUFFERS + 1) * order.bytes + SPARE_BYTES)
    model = np.zeros(order.bytes // 4, np.float32)
    handed = server.publisher(NAME, like={"w": model}, buffers=BUFFERS)
    publisher = Publisher(order, lambda _, array: handed.publish({"w": array}))
    return publisher, server.endpoint, server.close


def box_reader(order: Open, fabric: str) -> Reader:
    """Lease the newest version."""
    client = box.connect(order.place, fabrics=[fabric])
    models = client.subscribe(NAME, timeout=WAIT_SECONDS)

    seen: box.Model | None = None

    def look(version: int) -> tuple[float, float]:
        nonlocal seen
        seen = models.latest(newer_than=seen, timeout=WAIT_SECONDS)
        with seen:
            return _ends(seen["w"])

    return Reader(look, client.close)


def file_publisher(order: Open) -> Published:
    """Write a file and rename it: by torch.save where PyTorch is installed, or else by np.save."""
    folder = tempfile.TemporaryDirectory(prefix="farwrite-publish-")
    torch: Any = importlib.import_module("torch") if has_torch() else None

    def publish(version: int, array: Floats) -> None:
        part = Path(folder.name) / "part"
        with part.open("wb") as file:
            if torch is None:
                np.save(file, array)
            else:
                torch.save({"w": torch.from_numpy(array)}, file)
        part.rename(Path(folder.name) / str(version))
        with contextlib.suppress(FileNotFoundError):
            (Path(folder.name) / str(version - 1)).unlink()

    return Publisher(order, publish), folder.name, folder.cleanup


def file_reader(order: Open) -> Reader:
    """Load the file."""
    torch: Any = importlib.import_module("torch") if has_torch() else None

    def look(version: int) -> tuple[float, float]:
        path = Path(order.place) / str(version)
        _wait(path.exists)
        return _ends(np.load(path) if torch is None else torch.load(path)["w"].numpy())

    return Reader(look, lambda: None)


class SharedModel:
    """A model in multiprocessing.shared_memory, behind its version."""

    def __init__(self, memory: shared_memory.SharedMemory, size: int) -> None:
        self._memory = memory
        whole = np.frombuffer(cast(memoryview, memory.buf), np.uint8)
        self.version = whole[:8].view(np.int64)
        self.array: Floats = whole[COUNTER_BYTES : COUNTER_BYTES + size].view(np.float32)

    def put(self, version: int, array: Floats) -> None:
        """Copy the elements, then store the version's number."""
        np.copyto(self.array, array)
        self.version[0] = version

    def close(self) -> None:
        """Give the mapping back."""
        del self.version, self.array
        self._memory.close()


def shared_publisher(order: Open) -> Published:
    """Copy into shared memory. A reader that still uses the version before sees torn bytes."""
    memory = shared_memory.SharedMemory(create=True, size=COUNTER_BYTES + order.bytes)
    model = SharedModel(memory, order.bytes)
    model.array.fill(0)  # takes every page before the first version

    def close() -> None:
        model.close()
        memory.unlink()

    return Publisher(order, model.put), memory.name, close


def shared_reader(order: Open) -> Reader:
    """Read the elements in place."""
    memory = shared_memory.SharedMemory(order.place)
    # Before Python 3.13, the reader's process would also remove the memory when it ends.
    resource_tracker.unregister(f"/{memory.name}", "shared_memory")
    model = SharedModel(memory, order.bytes)

    def look(version: int) -> tuple[float, float]:
        _wait(lambda: bool(model.version[0] >= version))
        return _ends(model.array)

    return Reader(look, model.close)


PUBLISHERS = {"box": box_publisher, "file": file_publisher, "shared-memory": shared_publisher}


def _ends(array: Any) -> tuple[float, float]:
    return float(array[0]), float(array[-1])


def _wait(ready: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not ready():
        if time.monotonic() > give_up:
            raise DeadlineExceeded("bench box: a reader waited 60 s for a version; report this")
        time.sleep(NAP_SECONDS)
