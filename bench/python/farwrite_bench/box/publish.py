"""The publish test: from the start of a publish until each of several readers has the version.

A publisher and its readers count versions from 1 on. Every element of version n is n, so a reader
detects an old or a torn version.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farwrite import box
from farwrite.errors import DeadlineExceeded, FailedPrecondition
from farwrite_bench._native import copy
from farwrite_bench.box.pages import Floats, filled
from farwrite_bench.box.plan import BOX_SHM, BOX_TCP, PUBLISH, BoxPlan
from farwrite_bench.box.process import (
    SPARE_BYTES,
    START_SECONDS,
    Call,
    Turn,
    ask,
    opened,
    processes,
    sleep_until,
)
from farwrite_bench.box.rows import compared, row
from farwrite_bench.cluster.control import Control
from farwrite_bench.failure import Crew, noting
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row

READERS = 8
TARGET = 1.15
"""The most times that a version may take of one streaming copy."""
SHARE = READERS + 4.0
"""Models in memory: one in each reader that copies, and those of the publisher."""
HAS_TORCH = importlib.util.find_spec("torch") is not None
FILE = "torch-file" if HAS_TORCH else "numpy-file"
SHARED = "shared-memory"
SLOW = (BOX_TCP, FILE)
"""Ways by which each reader copies: a version takes seconds, so that one of them is enough."""
COPIES = {BOX_SHM: (1, 0), BOX_TCP: (1, 1), FILE: (1, 1), SHARED: (1, 0)}
"""Copies of the bytes by the publisher and by each reader."""
NAP_SECONDS = 200e-6
"""Between two checks of a reader that has no events to wait for."""
WAIT_SECONDS = 60.0
COUNTER_BYTES = 4096
"""The bytes before the model in shared memory: a page that holds the version."""
BUFFERS = 3
NAME = "model"


def run(plan: BoxPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure the box beside a file and plain shared memory, which take turns."""
    size = plan.segment_bytes(SHARE)
    if not plan.boxes:
        return []
    ways = [*plan.boxes, FILE, SHARED]
    taken: dict[str, list[float]] = {way: [] for way in ways}
    copied: dict[str, list[float]] = {way: [] for way in ways}
    failed: dict[str, str] = {}
    with (
        Crew(lambda: processes(READERS, logs)) as readers,
        Crew(lambda: processes(1, logs, "server")) as publisher,
    ):
        for number in range(plan.rounds):
            for place, way in enumerate(ways if number % 2 == 0 else reversed(ways)):
                if way in failed:
                    continue
                progress((number + place / len(ways)) / plan.rounds, f"publish over {way}")
                with noting(failed, way):
                    seconds, copies = turn(publisher.members(), readers.members(), way, size)
                    taken[way].append(seconds)
                    copied[way].append(copies)
                if way in failed:  # a process that fails ends
                    readers.end()
                    publisher.end()
    return [_row(way, size, taken[way], copied[way], failed.get(way)) for way in ways]


def turn(
    publisher: Sequence[Control], readers: Sequence[Control], way: str, size: int
) -> tuple[float, float]:
    """Publish versions of `size` bytes by one way, with one of its `readers` for each process.

    Returns
    -------
    tuple of float
        The median seconds until all readers see a version, and those of one streaming copy.
    """
    publish, subscribe = WAYS.get(way, (box_publisher, box_reader))
    visible, copies = [], []
    warm_up, measured = (1, 1) if way in SLOW else (BUFFERS, 3)  # each buffer is used once before
    with (
        opened(publisher, way, publish, size) as place,
        opened(readers, way, subscribe, place, way.removeprefix("box-")),
    ):
        for version in range(warm_up + measured):
            run = Call(way, "run", (time.perf_counter() + START_SECONDS,))
            (began, copied), *seen = ask([*publisher, *readers], run)
            if version >= warm_up:
                visible.append(max(seen) - began)
                copies.append(copied)
    return statistics.median(visible), statistics.median(copies)


def _row(way: str, size: int, taken: list[float], copied: list[float], error: str | None) -> Row:
    if error is not None:
        return row(PUBLISH, way, workers=READERS, bytes=size, error=error)
    by_publisher, by_reader = COPIES[way]
    return row(
        PUBLISH,
        way,
        workers=READERS,
        bytes=size,
        visible_ms=round(statistics.median(taken) * 1e3, 3),
        gb_s=round(size / statistics.median(taken) / 1e9, 3),
        limit_gb_s=round(size / statistics.median(copied) / 1e9, 3),
        **compared(taken, copied, TARGET if way == BOX_SHM else None, most=True),
        copies_publisher=by_publisher,
        copies_reader=by_reader,
    )


def _publisher(size: int, place: str, publish: Callable[[int, Floats], object]) -> Turn:
    """Make a turn that publishes the next version; `publish` takes its number and its elements.

    It returns when it began, and the seconds of one streaming copy of as many bytes.
    """
    model, other = filled(size, 0), filled(size, 0)
    versions = itertools.count(1)

    def run(moment: float) -> tuple[float, float]:
        version = next(versions)
        model.fill(version)
        start = time.perf_counter()
        copy(other.view(np.uint8), model.view(np.uint8))
        copied = time.perf_counter() - start
        sleep_until(moment)
        began = time.perf_counter()
        publish(version, model)
        return began, copied

    return Turn(run, place=place)


def _reader(look: Callable[[int], tuple[float, float]]) -> Turn:
    """Make a turn that waits for the next version; `look` returns its first and last element.

    It returns when the version was visible.
    """
    versions = itertools.count(1)

    def run(_: float) -> float:
        version = next(versions)
        seen = look(version)
        ended = time.perf_counter()
        expected = float(version)
        if seen != (expected, expected):
            raise FailedPrecondition(
                f"bench box: a reader saw {seen} instead of version {version}; report this"
            )
        return ended

    return Turn(run)


@contextlib.contextmanager
def box_publisher(size: int) -> Iterator[Turn]:
    """Publish from the process that serves, which fills the new version itself."""
    with box.serve(memory=(BUFFERS + 1) * size + SPARE_BYTES) as server:
        like = {"w": np.zeros(size // 4, np.float32)}
        handed = server.publisher(NAME, like=like, buffers=BUFFERS)
        yield _publisher(size, server.endpoint, lambda _, array: handed.publish({"w": array}))


@contextlib.contextmanager
def box_reader(place: str, fabric: str) -> Iterator[Turn]:
    """Lease the newest version."""
    with box.connect(place, fabrics=[fabric]) as client:
        models = client.subscribe(NAME, timeout=WAIT_SECONDS)
        seen: box.Model | None = None

        def look(_: int) -> tuple[float, float]:
            nonlocal seen
            seen = models.latest(newer_than=seen, timeout=WAIT_SECONDS)
            with seen:
                return _ends(seen["w"])

        yield _reader(look)


@contextlib.contextmanager
def file_publisher(size: int) -> Iterator[Turn]:
    """Write a file and rename it: by torch.save where PyTorch is installed, or else by np.save."""
    torch: Any = importlib.import_module("torch") if HAS_TORCH else None

    def publish(version: int, array: Floats) -> None:
        part = Path(folder) / "part"
        with part.open("wb") as file:
            if torch is None:
                np.save(file, array)
            else:
                torch.save({"w": torch.from_numpy(array)}, file)
        part.rename(Path(folder) / str(version))
        (Path(folder) / str(version - 1)).unlink(missing_ok=True)

    with tempfile.TemporaryDirectory(prefix="farwrite-publish-") as folder:
        yield _publisher(size, folder, publish)


@contextlib.contextmanager
def file_reader(place: str, _: str) -> Iterator[Turn]:
    """Load the file."""
    torch: Any = importlib.import_module("torch") if HAS_TORCH else None

    def look(version: int) -> tuple[float, float]:
        path = Path(place) / str(version)
        _wait(path.exists)
        return _ends(np.load(path) if torch is None else torch.load(path)["w"].numpy())

    yield _reader(look)


@contextlib.contextmanager
def shared_publisher(size: int) -> Iterator[Turn]:
    """Copy into shared memory. A reader that still uses the version before sees torn bytes."""
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        os.truncate(file.fileno(), COUNTER_BYTES + size)
        place = f"/proc/{os.getpid()}/fd/{file.fileno()}"
        version, model = _mapped(place)
        model.fill(0)  # takes every page before the first version

        def publish(number: int, array: Floats) -> None:
            np.copyto(model, array)
            version[0] = number

        yield _publisher(size, place, publish)


@contextlib.contextmanager
def shared_reader(place: str, _: str) -> Iterator[Turn]:
    """Read the elements in place."""
    version, model = _mapped(place)

    def look(number: int) -> tuple[float, float]:
        _wait(lambda: bool(version[0] >= number))
        return _ends(model)

    yield _reader(look)


def _mapped(place: str) -> tuple[Any, Floats]:
    """Map a file of shared memory; return its version's number, and the model behind it."""
    whole = np.memmap(place, np.uint8, "r+").view(np.ndarray)
    return whole[:8].view(np.int64), whole[COUNTER_BYTES:].view(np.float32)


def _ends(array: Any) -> tuple[float, float]:
    return float(array[0]), float(array[-1])


def _wait(ready: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not ready():
        if time.monotonic() > give_up:
            raise DeadlineExceeded("bench box: a reader waited 60 s for a version; report this")
        time.sleep(NAP_SECONDS)


WAYS = {FILE: (file_publisher, file_reader), SHARED: (shared_publisher, shared_reader)}
"""The ways besides the box."""
