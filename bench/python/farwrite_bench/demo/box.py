"""The subcommand ``farwrite demo box``: a trainer hands its model to several readers."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.info import limits, memory_available, version
from farwrite.units import format_size
from farwrite_bench.box.group import box_tasks, server_task
from farwrite_bench.box.plan import BOX_SHM
from farwrite_bench.box.publish import COPIES, FILE, SHARED, turn
from farwrite_bench.demo.bars import Bar
from farwrite_bench.demo.chart import Bars, draw_bars, seconds
from farwrite_bench.figures import write, write_json
from farwrite_bench.machine import busy_note, load
from farwrite_bench.options import add_shared, count, size
from farwrite_bench.sizes import MIB

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

NAMES = {BOX_SHM: "Farwrite box", SHARED: "shared_memory", FILE: "a file"}
NOTES = {
    BOX_SHM: "each reader holds one whole version as long as it likes",
    SHARED: "no lock: a reader that is slow sees the next version's bytes",
    FILE: "each reader loads its own copy",
}
MODELS_IN_MEMORY = 8
"""Models in memory beside one for each reader: buffers, sources, and the file's pages."""


@dataclass(frozen=True)
class Handed:
    """The best round of one way."""

    way: str
    seconds: float
    """From the start of a publish until every reader had the version."""
    copy_seconds: float
    """Of one streaming copy of as many bytes in the publisher."""


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
    parser.add_argument("--size", type=size, default="256M", help="of the model (default: 256M)")
    parser.add_argument(
        "--readers", type=count, default=4, metavar="N", help="processes that read (default: 4)"
    )
    parser.add_argument(
        "--rounds",
        type=count,
        default=2,
        metavar="N",
        help="run this many rounds and show the best (default: 2)",
    )
    add_shared(parser, "--json", "--svg")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Hand the model over in each way, print the table and write the requested files."""
    most = memory_available() // (MODELS_IN_MEMORY + arguments.readers)
    model_bytes = max(min(arguments.size, most) // MIB, 1) * MIB
    before = load()
    handed = hand_over(model_bytes, arguments.readers, arguments.rounds)
    print("\n".join(table(handed, model_bytes, arguments.readers)))
    note = busy_note(before)
    if note:
        print(note)
    write_json(
        arguments.json,
        {
            "version": version(),
            "machine": limits(),
            "load": before,
            "bytes": model_bytes,
            "readers": arguments.readers,
            "ways": [
                {
                    "way": each.way,
                    "seconds": each.seconds,
                    "copy_seconds": each.copy_seconds,
                    "copies_publisher": COPIES[each.way][0],
                    "copies_reader": COPIES[each.way][1],
                }
                for each in handed
            ],
        },
    )
    if arguments.svg is not None:
        write(arguments.svg, picture(handed, model_bytes, arguments.readers))
    return 0


def hand_over(model_bytes: int, readers: int, rounds: int) -> list[Handed]:
    """Publish in every way, `rounds` times, and keep the best of each."""
    best: dict[str, Handed] = {}
    with (
        tempfile.TemporaryDirectory(prefix="farwrite-demo-") as logs,
        box_tasks(readers, Path(logs)) as reading,
        server_task(Path(logs)) as publisher,
    ):
        for number in range(1, rounds + 1):
            for way, name in NAMES.items():
                with Bar(f"{name}, {number} of {rounds}") as bar:
                    taken = Handed(way, *turn(publisher, reading, way, model_bytes))
                    bar.result(f"{seconds(taken.seconds)}")
                if way not in best or taken.seconds < best[way].seconds:
                    best[way] = taken
    return [best[way] for way in NAMES]


def table(handed: Sequence[Handed], model_bytes: int, readers: int) -> Iterator[str]:
    """Format the results as the lines of a table."""
    yield ""
    yield f"a model of {format_size(model_bytes)} from a trainer to {readers} readers"
    yield ""
    yield f"  {'':<16} {'all have it':>12} {'one copy':>12}  copies: trainer, each reader"
    for each in handed:
        by_publisher, by_reader = COPIES[each.way]
        yield (
            f"  {NAMES[each.way]:<16} {seconds(each.seconds):>12}"
            f" {seconds(each.copy_seconds):>12}  {by_publisher}, {by_reader}"
        )
    yield ""
    for each in handed:
        yield f"  {NAMES[each.way]}: {NOTES[each.way]}"


def picture(handed: Sequence[Handed], model_bytes: int, readers: int) -> str:
    """Draw one bar for each way: one copy of the model, and the time until all readers had it."""
    return draw_bars(
        f"A model of {format_size(model_bytes)}, from a trainer to {readers} readers",
        "Strong: one copy in memory. Pale: until every reader has it. Less is better.",
        [
            Bars(
                NAMES[each.way],
                each.way == BOX_SHM,
                min(each.copy_seconds, each.seconds),
                each.seconds,
            )
            for each in handed
        ],
    )
