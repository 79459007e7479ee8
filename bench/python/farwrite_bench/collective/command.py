"""The subcommand ``farwrite bench collective``: an all-reduce between two workers."""

from __future__ import annotations

import argparse
import contextlib
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.errors import Internal
from farwrite.units import format_size
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.plugin import PLUGIN, measuring
from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.readings import spent
from farwrite_bench.cluster.transport import FARWRITE, GRPC, Transport, require
from farwrite_bench.collective.plan import Join, Reduce, Reduced
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_number, add_shared, count
from farwrite_bench.ratio import rounded
from farwrite_bench.record import Record
from farwrite_bench.table import ProgressBar, text_table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

WORKERS = 2
ROUNDS, QUICK_ROUNDS = 7, 2
ELEMENT = 4
TRANSPORTS = {transport.key: transport for transport in (GRPC, FARWRITE)}
WARM_UP_STEPS = 1
"""Steps before each turn, which are not measured."""
HEADERS = (
    "transport",
    "fabric",
    "step ms",
    "GB/s",
    "of grpc",
    "cpu ms",
    "copies",
    "socket bytes",
    "RPCs",
)
NOTE = (
    "A step is MultiWorkerMirroredStrategy's all_reduce of one float32 variable in a tf.function,"
    " by TensorFlow's ring. Its time is the time of the slower worker. GB/s: the variable's bytes"
    " divided by that time; each worker sends about as many bytes. cpu ms, copies, socket bytes and"
    " RPCs (RecvBuf calls) are per step, for both workers together. On both transports gRPC has"
    " TensorFlow's defaults, and a worker has one thread per core."
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``collective``."""
    parser = kinds.add_parser(
        "collective",
        help="measure an all-reduce between two TensorFlow workers",
        description="Measure how long the all-reduce of a variable takes between two workers of a"
        " MultiWorkerMirroredStrategy. Stock gRPC and Farwrite take turns. Needs TensorFlow.",
        epilog="Example: farwrite bench collective --megabytes 64",
    )
    parser.add_argument(
        "--megabytes",
        type=float,
        default=64,
        metavar="N",
        help="size of the variable, in MiB (default: 64)",
    )
    add_number(parser, "--rounds", ROUNDS, quick=QUICK_ROUNDS, kind=count)
    add_number(parser, "--steps", 5)
    add_shared(parser, "--fabric", "--quick", "--json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the JSON file."""
    require("farwrite bench collective", "tensorflow")
    record = Record("collective", quick=arguments.quick)
    record.announce()
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    elements = max(int(arguments.megabytes * 2**20) // ELEMENT, 1)
    with measuring(PLUGIN) as (bar, logs):
        turns = _measure(elements, rounds, arguments, bar, logs)
    rows = _rows(elements * ELEMENT, turns)
    settings = {
        "bytes": elements * ELEMENT,
        "rounds": rounds,
        "steps": max(arguments.steps, 1),
        "fabric": arguments.fabric,
    }
    shown = ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
    print(f"all-reduce of {format_size(elements * ELEMENT)} between {WORKERS} workers ({shown})\n")
    print("\n".join(text_table(HEADERS, [cells(row) for row in rows])))
    print(f"\n{NOTE}")
    write_json(arguments.json, record.facts([NOTE], settings=settings, rows=rows))
    return 0


Turn = tuple[Reduced, ...]
"""The results of all workers in one turn."""


def _measure(
    elements: int, rounds: int, arguments: argparse.Namespace, bar: ProgressBar, logs: Path
) -> dict[str, list[Turn]]:
    forced = {} if arguments.fabric is None else {"FARWRITE_FABRICS": arguments.fabric}
    steps = max(arguments.steps, 1)
    with contextlib.ExitStack() as stack:
        workers = {
            key: stack.enter_context(_workers(transport, elements, forced, logs))
            for key, transport in TRANSPORTS.items()
        }
        turns: dict[str, list[Turn]] = {key: [] for key in workers}
        for number in range(rounds):
            for place, key in enumerate(workers if number % 2 == 0 else reversed(workers)):
                bar((number + place / len(workers)) / rounds, key)
                turns[key].append(_turn(workers[key], Reduce(steps, WARM_UP_STEPS)))
        return turns


@contextlib.contextmanager
def _workers(
    transport: Transport, elements: int, forced: dict[str, str], logs: Path
) -> Iterator[list[ForkedTask]]:
    addresses = tuple(free_addresses(WORKERS))
    with contextlib.ExitStack() as stack:
        tasks = [
            stack.enter_context(
                ForkedTask(
                    f"{transport.key} worker {index}",
                    "farwrite_bench.collective.worker",
                    {**transport.environment, **forced},
                    logs / f"{transport.key}-{index}.log",
                )
            )
            for index in range(WORKERS)
        ]
        for index, task in enumerate(tasks):
            task.send(Join(addresses, index, transport, elements))
        for task in tasks:
            task.receive()
        yield tasks


def _turn(tasks: Sequence[ForkedTask], order: Reduce) -> Turn:
    for task in tasks:
        task.send(order)
    answers = [task.receive() for task in tasks]
    reduced = tuple(answer for answer in answers if isinstance(answer, Reduced))
    if len(reduced) != len(answers):
        raise Internal(f"bench collective: unexpected answers of workers: {answers!r}; report this")
    return reduced


def _rows(size: int, turns: dict[str, list[Turn]]) -> list[dict[str, Any]]:
    # A step ends when the slower worker ends it.
    taken = {
        key: [
            [max(each) for each in zip(*(worker.seconds for worker in turn), strict=True)]
            for turn in rounds
        ]
        for key, rounds in turns.items()
    }
    rows = []
    for key, rounds in turns.items():
        totals = [spent([w.before for w in turn], [w.after for w in turn]) for turn in rounds]
        steps = sum(len(each) for each in taken[key])
        median = statistics.median(second for each in taken[key] for second in each)
        ratios = [
            statistics.median(ours) / statistics.median(stock)
            for ours, stock in zip(taken[key], taken[GRPC.key], strict=True)
        ]

        def a_step(
            name: str, totals: Sequence[dict[str, float]] = totals, steps: int = steps
        ) -> float:
            return sum(total.get(name, 0) for total in totals) / steps

        counted = not TRANSPORTS[key].stock
        rows.append(
            {
                "transport": key,
                "fabric": "/".join(
                    sorted({name for turn in rounds for w in turn for name in w.after.fabrics})
                )
                or None,
                "step_ms": round(median * 1e3, 4),
                "gb_s": round(size / median / 1e9, 3),
                "of_grpc": rounded(statistics.median(ratios)),
                "of_grpc_spread": [rounded(min(ratios)), rounded(max(ratios))],
                "cpu_ms": round(a_step("cpu_seconds") * 1e3, 3),
                "copies": a_step("copies") if counted else None,
                "rpcs": a_step("grpc_recv_buf_calls") if counted else None,
                "socket_bytes": round(a_step("socket_bytes"), 1),
                "steps": steps,
            }
        )
    return rows


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Format one row as the cells below `HEADERS`."""

    def known(value: float | None) -> str:
        return "-" if value is None else f"{value:g}"

    return (
        row["transport"],
        row["fabric"] or "-",
        f"{row['step_ms']:.4g}",
        f"{row['gb_s']:.2f}",
        f"{row['of_grpc']:.3f}",
        f"{row['cpu_ms']:.4g}",
        known(row["copies"]),
        format_size(int(row["socket_bytes"])),
        known(row["rpcs"]),
    )
