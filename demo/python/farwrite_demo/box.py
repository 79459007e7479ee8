"""The subcommand ``farwrite demo box``: a trainer hands its model to several readers.

The trainer and its readers count versions from 1 on. Every element of version n is n, so a reader
detects an old or a torn version.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from farwrite import box
from farwrite.errors import Internal
from farwrite.info import limits, memory_available, version
from farwrite.units import format_size
from farwrite_demo.chart import Row, draw, duration
from farwrite_demo.child import Child
from farwrite_demo.options import add_shared, count, load, size, warn_if_busy, write
from farwrite_demo.progress import Progress
from farwrite_demo.shared import shared_memory

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

Floats = npt.NDArray[np.float32]
Publish = Callable[[int, Floats], object]
"""Makes a version visible: its number, and its elements."""
Look = Callable[[int], Floats]
"""Waits for a version and returns its elements."""

NAME = "model"
MIB = 2**20
BUFFERS = 3
MODELS_IN_MEMORY = 8
"""Models in memory beside one for each reader: buffers, sources, and the file's pages."""
SPARE_BYTES = 128 * MIB
"""Memory of a box besides its segments: the pool that it takes at its start, and its records."""
VERSION_BYTES = 4096
"""The bytes before the model in shared memory: a page that holds the version."""
NAP_SECONDS = 200e-6
"""Between two checks of a reader that has no events to wait for."""
WAIT_SECONDS = 60.0
READY_SECONDS = 0.05
"""From the order to wait for a version until its publication: by then every reader waits."""


@dataclass(frozen=True)
class Way:
    """One way to hand the model over."""

    name: str
    note: str
    copies: tuple[int, int]
    """Copies of the bytes by the trainer and by each reader."""
    publisher: Callable[[contextlib.ExitStack, int], tuple[str, Publish]]
    """Takes the bytes of the model; returns the place where its readers find it."""
    reader: Callable[[contextlib.ExitStack, str], Look]


@dataclass(frozen=True)
class Handed:
    """The best round of one way."""

    seconds: float
    """From the start of a publish until every reader had the version."""
    copy_seconds: float
    """Of one copy of as many bytes in the trainer."""


def _box_publisher(stack: contextlib.ExitStack, model_bytes: int) -> tuple[str, Publish]:
    server = box.serve(memory=(BUFFERS + 1) * model_bytes + SPARE_BYTES)
    stack.callback(server.close)
    like = {"w": np.zeros(model_bytes // 4, np.float32)}
    handed = server.publisher(NAME, like=like, buffers=BUFFERS)
    return server.endpoint, lambda _, model: handed.publish({"w": model})


def _box_reader(stack: contextlib.ExitStack, place: str) -> Look:
    client = box.connect(place, fabrics=["shm"])
    stack.callback(client.close)
    models = client.subscribe(NAME, timeout=WAIT_SECONDS)
    seen: box.Model | None = None

    def look(_: int) -> Floats:
        nonlocal seen
        seen = models.latest(newer_than=seen, timeout=WAIT_SECONDS)
        with seen:
            return _ends(seen["w"])

    return look


def _shared_publisher(stack: contextlib.ExitStack, model_bytes: int) -> tuple[str, Publish]:
    shared = stack.enter_context(shared_memory(VERSION_BYTES + model_bytes))

    def publish(number: int, model: Floats) -> None:
        np.copyto(_floats(shared, model_bytes), model)
        _version(shared)[0] = number

    return f"{shared.name} {model_bytes}", publish


def _shared_reader(stack: contextlib.ExitStack, place: str) -> Look:
    name, model_bytes = place.split()
    shared = SharedMemory(name)
    stack.callback(shared.close)

    def look(number: int) -> Floats:
        _wait(lambda: _version(shared)[0] == number)
        return _ends(_floats(shared, int(model_bytes)))

    return look


def _file_publisher(stack: contextlib.ExitStack, _: int) -> tuple[str, Publish]:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="farwrite-demo-"))

    def publish(number: int, model: Floats) -> None:
        part = Path(folder) / "part"
        with part.open("wb") as file:
            np.save(file, model)
        part.rename(Path(folder) / str(number))
        (Path(folder) / str(number - 1)).unlink(missing_ok=True)

    return folder, publish


def _file_reader(_: contextlib.ExitStack, place: str) -> Look:
    def look(number: int) -> Floats:
        path = Path(place) / str(number)
        _wait(path.exists)
        return _ends(np.load(path))

    return look


WAYS = {
    "box-shm": Way(
        "Farwrite box",
        "each reader holds one whole version as long as it likes",
        (1, 0),
        _box_publisher,
        _box_reader,
    ),
    "shared-memory": Way(
        "shared_memory",
        "no lock: a reader that is slow sees the next version's bytes",
        (1, 0),
        _shared_publisher,
        _shared_reader,
    ),
    "numpy-file": Way(
        "a file", "each reader loads its own copy", (1, 1), _file_publisher, _file_reader
    ),
}


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand ``box``."""
    parser = subparsers.add_parser(
        "box",
        help="hand a model to other processes over a box, and other ways",
        description="A trainer hands versions of a model to several processes: over a parameter"
        " box, through multiprocessing.shared_memory, and by a file. Each reader checks the"
        " version that it gets.",
        epilog="Example: farwrite demo box --readers 4",
    )
    parser.add_argument(
        "--size", type=size, default="256M", help="size of the model (default: 256M)"
    )
    parser.add_argument(
        "--readers", type=count, default=4, metavar="N", help="processes that read (default: 4)"
    )
    add_shared(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Hand the model over in each way, print the table and write the requested files."""
    most = memory_available() // (MODELS_IN_MEMORY + arguments.readers)
    model_bytes = max(min(arguments.size, most) // MIB, 1) * MIB
    before = load()
    handed = hand_over(model_bytes, arguments.readers, arguments.rounds)
    title = f"A model of {format_size(model_bytes)}, from a trainer to {arguments.readers} readers"
    print("\n".join(table(title, handed)))
    warn_if_busy(before)
    facts = {
        "version": version(),
        "machine": limits(),
        "load": before,
        "bytes": model_bytes,
        "readers": arguments.readers,
        "ways": [
            {
                "way": key,
                "seconds": each.seconds,
                "copy_seconds": each.copy_seconds,
                "copies_publisher": WAYS[key].copies[0],
                "copies_reader": WAYS[key].copies[1],
            }
            for key, each in handed.items()
        ],
    }
    write(arguments.json, json.dumps(facts, indent=2))
    write(arguments.svg, picture(title, handed))
    return 0


def hand_over(model_bytes: int, readers: int, rounds: int) -> dict[str, Handed]:
    """Publish in every way, `rounds` times, and keep the best of each."""
    best: dict[str, Handed] = {}
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(Child(f"reader {number}", read)) for number in range(readers)
        ]
        for number in range(1, rounds + 1):
            for key, way in WAYS.items():
                with Progress(f"{way.name}, {number} of {rounds}") as line:
                    taken = _turn(key, children, model_bytes)
                    line.result = duration(taken.seconds)
                if key not in best or taken.seconds < best[key].seconds:
                    best[key] = taken
    return {key: best[key] for key in WAYS}


def _turn(key: str, readers: Sequence[Child], model_bytes: int) -> Handed:
    """Publish a few versions; the first ones touch the memory of the way and are not measured."""
    model, other = np.zeros((2, model_bytes // 4), np.float32)
    taken, copied = [], []
    with contextlib.ExitStack() as stack:
        place, publish = WAYS[key].publisher(stack, model_bytes)
        for reader in readers:
            reader.send((key, place))
        for reader in readers:
            reader.receive()
        warm_up = 1 if key == "numpy-file" else BUFFERS
        for number in range(1, warm_up + 3):
            model.fill(number)
            copy_start = time.perf_counter()
            np.copyto(other, model)
            copied.append(time.perf_counter() - copy_start)
            for reader in readers:
                reader.send(number)
            time.sleep(READY_SECONDS)
            start = time.perf_counter()
            publish(number, model)
            answers = [reader.receive() for reader in readers]
            for _, seen in answers:
                if seen != [number, number]:
                    raise Internal(f"demo box: a reader saw {seen}, not {number}; report this")
            taken.append(max(ended for ended, _ in answers) - start)
        for reader in readers:
            reader.ask(None)
    return Handed(statistics.median(taken[warm_up:]), statistics.median(copied[warm_up:]))


def read(pipe: Connection) -> None:
    """Read versions in one way after the other; the answer is when a version was there."""
    while True:
        key, place = pipe.recv()
        with contextlib.ExitStack() as stack:
            look = WAYS[key].reader(stack, place)
            pipe.send("ready")
            while (number := pipe.recv()) is not None:
                seen = look(number)
                pipe.send((time.perf_counter(), seen.tolist()))
        pipe.send("closed")


def table(title: str, handed: Mapping[str, Handed]) -> Iterator[str]:
    """Format the results as the lines of a table, and say what to expect."""
    yield f"\n{title}\n"
    yield f"  {'':<16} {'all have it':>12} {'one copy':>12}  copies: trainer, each reader"
    for key, each in handed.items():
        by_trainer, by_reader = WAYS[key].copies
        yield (
            f"  {WAYS[key].name:<16} {duration(each.seconds):>12}"
            f" {duration(each.copy_seconds):>12}  {by_trainer}, {by_reader}"
        )
    yield ""
    for way in WAYS.values():
        yield f"  {way.name}: {way.note}"
    yield (
        "\nTo expect for 256 MiB and 4 readers: over the box all have the model after 1.1 to 1.3\n"
        "times the time of one copy, as with shared_memory. A file takes 8 to 17 times as long."
    )


def picture(title: str, handed: Mapping[str, Handed]) -> str:
    """Draw one bar for each way: one copy of the model, and the time until all readers had it."""
    return draw(
        title,
        "Time of one copy in memory (strong), and until every reader has it (pale). Less is"
        " better.",
        [
            Row(
                WAYS[key].name, key == "box-shm", min(each.copy_seconds, each.seconds), each.seconds
            )
            for key, each in handed.items()
        ],
    )


def _wait(ready: Callable[[], object]) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not ready():
        if time.monotonic() > give_up:
            raise Internal("demo box: the version did not come; report this")
        time.sleep(NAP_SECONDS)


def _ends(model: Any) -> Floats:
    """Copy the first and the last element."""
    ends: Floats = np.asarray(model)[[0, -1]]
    return ends


def _version(shared: SharedMemory) -> npt.NDArray[np.uint64]:
    assert shared.buf is not None
    return np.frombuffer(shared.buf, np.uint64, 1)


def _floats(shared: SharedMemory, model_bytes: int) -> Floats:
    assert shared.buf is not None
    return np.frombuffer(shared.buf, np.float32, model_bytes // 4, VERSION_BYTES)
