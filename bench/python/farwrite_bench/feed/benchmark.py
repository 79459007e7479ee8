"""``farwrite bench feed``: feeds and fetches of a client of a server in another process."""

from __future__ import annotations

import functools
import os
import statistics
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

from farwrite.errors import Internal
from farwrite.units import format_size
from farwrite_bench.cluster import ways
from farwrite_bench.cluster.group import Group, Take, Turn, totals
from farwrite_bench.cluster.plugin import programs
from farwrite_bench.cluster.transport import FARWRITE, GRPC, STOCK_PROTOCOL, fabric_in_words
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress, stage
from farwrite_bench.harness.chart import Bars, BySize
from farwrite_bench.harness.column import Column, Table, ratio, span, spread
from farwrite_bench.harness.memory import affordable
from farwrite_bench.options import sizes
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Facts, Gain, Row, rows_of
from farwrite_bench.sizes import KIB, MIB
from farwrite_bench.tensor.graph import session_config, timed
from farwrite_bench.tensor.plan import GRPC_LIMIT

FEED, FETCH = "feed", "fetch"
ELEMENT = 4
"""Bytes of a float32."""
DEVICE = "/job:worker/task:0"
STRIDE = 1024
"""Elements between two that each turn of feeds changes: one in each page."""
WAYS = {each.key: each for each in (GRPC, FARWRITE)}
"""The transport of the server. The client runs no server."""
OPERATIONS = (FEED, FETCH)
ROUNDS, QUICK_ROUNDS = 9, 2
SIZE_SECONDS = 60.0
SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB)
QUICK_SIZES = (4 * KIB, MIB)
TARGETS = (STOCK_PROTOCOL, FARWRITE.protocol)
DEFAULT_TARGET = FARWRITE.protocol
"""The scheme of the target that a session of Farwrite's row has by default."""

MEMORY_PER_SIZE = 26.0
"""Memory of both ways together, in tensors: values in the client, and gRPC's messages on either
side."""
SPARE_BYTES = 3 * 2**30
"""Memory for the interpreters, each of which loads TensorFlow."""
TURN_SECONDS = 0.25
"""About how long a turn of either operation takes, if it has more than the fewest steps."""
FEWEST_ROUNDS = 5
FEWEST_STEPS, MOST_STEPS = 2, 100
"""Limits of the steps of a turn."""
_START_SECONDS = 12.0
_SECONDS_PER_BYTE = 4e-9
"""Time of a feed or a fetch over gRPC, on two processors."""

FIRST_STEPS = 2
"""Steps of each operation that are not measured. The last one gives the steps of a turn."""
NOTES = (
    "A v1 client without a server feeds a NumPy array into a variable of a server in another"
    " process, and fetches the variable. Every turn feeds new values, and all of what a turn"
    " fetches is compared with them.",
    "ms: the median over the rounds of a turn's median; spread is the lowest and the highest"
    " round. 1 GB is 10^9 bytes. of grpc: the time divided by stock gRPC's in the same round. cpu"
    " ms: user and system time of client and server. by grpc: tensors that Farwrite's server got"
    " or gave over gRPC. cpu ms, by grpc and socket bytes are per feed or fetch.",
)

Turns = dict[str, dict[str, list[Turn]]]
"""Turns by operation and way."""


def scheme(plan: Namespace, way: str) -> str:
    """Return the scheme of the session's target; that of stock TensorFlow is always the same."""
    return STOCK_PROTOCOL if WAYS[way].stock else str(plan.target)


def expected_seconds(plan: Namespace) -> float:
    """Estimate the time of a run on two processors."""
    expected = _START_SECONDS
    for size in plan.sizes:
        turn = max(TURN_SECONDS, FEWEST_STEPS * size * _SECONDS_PER_BYTE)
        a_round = turn * len(plan.way) * len(OPERATIONS)
        fewest = min(plan.rounds, FEWEST_ROUNDS) * a_round
        expected += a_round + max(min(plan.rounds * a_round, plan.seconds), fewest)
    return expected


def memory(size: int) -> float:
    """Return the memory that a size needs, in bytes."""
    return size * MEMORY_PER_SIZE + SPARE_BYTES


def plan(arguments: Namespace, record: Record) -> Namespace:
    """Leave out the sizes that memory does not allow; otherwise the options are the plan."""
    arguments.sizes = affordable(record, "a tensor", arguments.sizes, memory)
    arguments.way = [key for key in WAYS if key in arguments.way]
    return arguments


def measure(plan: Namespace, progress: Progress, logs: Path) -> Facts:
    """Measure everything in `plan`; the children's output goes to `logs`.

    A way whose process fails, or fetches something else than it fed, has no further turns.
    """
    rows: list[Row] = []
    progress(0.0, "starting processes")
    processes = {key: _way(key, scheme(plan, key)) for key in plan.way}
    with ways.started(processes, plan.fabric, logs) as running:
        for number, size in enumerate(plan.sizes):
            of_size = stage(progress, number, len(plan.sizes))
            report = functools.partial(of_size, what=format_size(size))
            report(0.0)
            load = os.getloadavg()[0]
            rows += make_rows(plan, size, _turns(plan, size, running, report), load)
            rows += (
                {
                    "operation": operation,
                    "size": size,
                    "way": way,
                    "target": scheme(plan, way),
                    "error": reason,
                }
                for operation in OPERATIONS
                for way, reason in running.failed.items()
            )
    return {"rows": rows}


def _turns(
    plan: Namespace, size: int, running: ways.Running, report: Callable[[float], None]
) -> Turns:
    counts, round_seconds = {}, 0.0

    def begin(way: str, group: Group) -> None:
        nonlocal round_seconds
        group.client.ask(methodcaller("open", size))
        for what in OPERATIONS:
            last = group.seconds(Take(FIRST_STEPS, what))[-1]
            counts[way, what] = min(max(int(TURN_SECONDS / last), FEWEST_STEPS), MOST_STEPS)
            round_seconds += last * counts[way, what]

    running.each(begin)
    affordable = int(plan.seconds / max(round_seconds, 1e-6))
    rounds = min(plan.rounds, max(affordable, FEWEST_ROUNDS))
    groups = running.groups
    turns: Turns = {what: {way: [] for way in groups} for what in OPERATIONS}
    for number, way in running.in_turn(rounds):
        report(number / rounds)
        with running.trying(way):
            for what in (FEED, FETCH):  # the fetch compares its result with what was fed
                turns[what][way].append(groups[way].turn(Take(counts[way, what], what)))
    running.each(lambda _, group: group.client.ask(methodcaller("close")))
    return {what: running.only(of_what) for what, of_what in turns.items()}


def _way(key: str, scheme: str) -> ways.Way:
    """Return a server, and a client outside of its cluster."""
    cluster = ways.addresses("worker")
    target = f"{scheme}://{cluster['worker'][0]}"
    loads = GRPC if scheme == STOCK_PROTOCOL else FARWRITE
    return ways.Way(WAYS[key], cluster, ["worker"], Feeds, (target,), loads)


class Feeds:
    """Feeds a tensor into a variable of a server, and fetches the variable.

    Parameters
    ----------
    tf : module
        TensorFlow.
    target : str
        The server, such as "grpc://127.0.0.1:20000".
    """

    def __init__(self, tf: Any, target: str) -> None:
        self._tf, self._target = tf, target

    def open(self, size: int) -> None:
        """Open a session with a variable of `size` bytes."""
        tf = self._tf
        shape = [size // ELEMENT]
        with tf.Graph().as_default() as graph, tf.device(DEVICE):
            self._fed = tf.compat.v1.placeholder(tf.float32, shape)
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=shape, shared_name="fed")
            self._assign = tf.raw_ops.AssignVariableOp(resource=handle, value=self._fed)
            self._value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            self._destroy = tf.raw_ops.DestroyResourceOp(resource=handle)
        self._session = tf.compat.v1.Session(self._target, graph=graph, config=session_config(tf))
        self._array = np.random.default_rng(size).random(shape[0], dtype=np.float32)
        self._turns = 0

    def take(self, count: int, what: str) -> list[float]:
        """Feed or fetch `count` times."""
        return (self.feed if what == FEED else self.fetch)(count)

    def feed(self, count: int) -> list[float]:
        """Feed the tensor `count` times, with new values in each turn."""
        self._turns += 1
        self._mark(self._turns)
        feeds = {self._fed: self._array}
        return timed(lambda: self._session.run(self._assign, feeds), count)

    def fetch(self, count: int) -> list[float]:
        """Fetch the variable `count` times, and compare all of it with what was fed.

        The fed array changes before, because a program may use it again after its feed.
        """
        self._mark(0)
        found: Any = None

        def fetch() -> None:
            nonlocal found
            found = self._session.run(self._value)

        seconds = timed(fetch, count)
        self._mark(self._turns)
        if not np.array_equal(found, self._array):
            wrong = int(np.count_nonzero(found != self._array))
            raise Internal(
                f"bench feed: {wrong} of {self._array.size} fetched elements differ from what was"
                " fed; report this"
            )
        return seconds

    def _mark(self, value: float) -> None:
        self._array[::STRIDE] = value
        self._array[-1] = -value

    def close(self) -> None:
        """Free the variable and end the session."""
        self._session.run(self._destroy)
        self._session.close()


def make_rows(
    plan: Namespace, size: int, turns: Mapping[str, Mapping[str, Sequence[Turn]]], load: float
) -> list[Row]:
    """Make the row of each operation and way.

    ``by_grpc`` counts the tensors that gRPC carried to or from Farwrite's server, a step.
    """
    rows = []
    for operation, by_way in turns.items():
        medians = ways.medians_ms(by_way)
        for way, of_way in by_way.items():
            carried = totals(of_way).get("grpc_feeds" if operation == FEED else "grpc_fetches", 0)
            median = statistics.median(medians[way])
            rows.append(
                {
                    "operation": operation,
                    "size": size,
                    "way": way,
                    "target": scheme(plan, way),
                    "ms": round(median, 4),
                    "ms_rounds": [round(each, 4) for each in medians[way]],
                    "gb_s": round(size / median / 1e6, 6),
                    "of_grpc": ways.compared(medians, way, GRPC.key),
                    "by_grpc": None
                    if WAYS[way].stock
                    else round(carried / ways.steps_of(of_way), 3),
                    **ways.spent_in(of_way, load),
                }
            )
    return rows


def gains(facts: Facts) -> list[Gain]:
    """Compare every feed and fetch with stock gRPC."""
    return [
        Gain(
            f"{row['operation']} of {format_size(row['size'])}",
            1 / row["of_grpc"]["median"],
            "stock gRPC",
        )
        for row in rows_of(facts)
        if row["way"] != GRPC.key and row["of_grpc"]
    ]


def _sizes(text: str) -> tuple[int, ...]:
    wanted = sizes(text)
    if not wanted or any(size % ELEMENT or not 0 < size < GRPC_LIMIT for size in wanted):
        raise ArgumentTypeError(
            f"{text!r}: use sizes that are multiples of {ELEMENT} bytes and below {GRPC_LIMIT}"
            " bytes, the limit of a protobuf message"
        )
    return wanted


def _chart(operation: str) -> BySize:
    def is_it(row: Row) -> bool:
        return bool(row["operation"] == operation)

    single = Bars(f"One {operation}", lambda row: format_size(row["size"]), "ms", "ms", where=is_it)
    return BySize(f"Rate of a {operation}", "GB/s", "gb_s", single, order=[*WAYS], where=is_it)


BENCHMARK = Benchmark(
    name="feed",
    example="farwrite bench feed --sizes 4K,64M",
    description="Measure how long a v1 client, whose master is in another process, takes to feed a"
    " tensor and to fetch one. Servers of stock gRPC and of Farwrite take turns. Needs TensorFlow.",
    title="Feeds and fetches of a client",
    needs=("tensorflow",),
    libraries=lambda plan: programs([WAYS[key] for key in plan.way]),
    options=(
        option.size_list(
            SIZES,
            QUICK_SIZES,
            help="bytes of the tensor",
            kind=_sizes,
            metavar="4K,64M,...",
            shown="4K,64K,1M,16M,64M,256M; --quick: 4K,1M",
        ),
        option.chosen("--way", WAYS),
        option.Option(
            "--target",
            "scheme of the target by which the client reaches Farwrite's server; stock"
            f" TensorFlow's is always {STOCK_PROTOCOL}",
            DEFAULT_TARGET,
            choices=TARGETS,
        ),
        option.rounds(ROUNDS, quick=QUICK_ROUNDS),
        option.seconds(SIZE_SECONDS),
        option.FABRIC,
    ),
    plan=plan,
    seconds=expected_seconds,
    measure=measure,
    summary=lambda plan: f"median of up to {plan.rounds} rounds, {fabric_in_words(plan.fabric)}",
    settings=lambda plan: {
        "sizes": plan.sizes,
        "rounds": plan.rounds,
        "target": plan.target,
        "fabric": plan.fabric,
    },
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("operation", "operation"),
                Column("size", "size", format_size),
                Column("way", "way"),
                Column("target", "target", "{}://".format),
                Column("ms", "ms", ".3f"),
                span("spread", "ms_rounds", ".3f"),
                Column("GB/s", "gb_s", ".3g"),
                ratio("of grpc", "of_grpc", ".2f"),
                spread("spread", "of_grpc", ".2f"),
                Column("cpu ms", "cpu_ms", ".3f"),
                Column("by grpc", "by_grpc", "g"),
                Column("socket bytes", "socket_bytes", ".0f"),
            ),
            named=4,
        ),
    ),
    charts=(_chart(FEED), _chart(FETCH)),
    gains=gains,
    gain_of="faster than stock gRPC",
)
