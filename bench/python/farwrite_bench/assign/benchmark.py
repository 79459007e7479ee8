"""``farwrite bench assign``: adds a worker's vector to a variable of a parameter server.

TensorFlow's users compare transports by this step in https://github.com/tensorflow/tensorflow/issues/4498
and https://github.com/tensorflow/tensorflow/issues/6116. The benchmark differs from their programs
in two points: all ways take turns in one run, and the session is on the worker, as in training.
"""

from __future__ import annotations

import os
import statistics
from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

from farwrite.errors import FailedPrecondition, Internal
from farwrite_bench.cluster import ways
from farwrite_bench.cluster.group import Group, Take, Turn, totals
from farwrite_bench.cluster.transport import FARWRITE, GRPC, PLUGIN, fabric_in_words
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import Bars
from farwrite_bench.harness.column import Column, Table, ratio, span, spread
from farwrite_bench.harness.memory import affordable
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Facts, Gain, Row, rows_of
from farwrite_bench.tensor.graph import session_config, timed
from farwrite_bench.tensor.plan import GRPC_LIMIT, LOCAL, SPARE_BYTES
from farwrite_bench.tensor.rows import fabric, median_ms

MEGABYTE = 10**6
"""10^6 bytes, as in the issues, and not 2^20."""
SIZES = (10 * MEGABYTE, 100 * MEGABYTE, 400 * MEGABYTE)
QUICK_SIZES = (1 * MEGABYTE, 10 * MEGABYTE)
WAYS = {each.key: each for each in (LOCAL, GRPC, FARWRITE)}
WARM_UP_STEPS = 2
"""Steps before each turn, which are not measured."""
ADD, EMPTY = "add", "empty"
"""Kinds of steps."""
ELEMENT = 4
"""Bytes of an int32, the type that the issues' program adds."""
MEMORY_PER_SIZE = 10.0
"""Memory of all ways together, in vectors: a vector and a variable each, gRPC's buffers, and the
initial values."""
MOVED = ("pushes_alias", "pushes_landed")
"""Counters of vectors that Farwrite moved: lent to the receiver, or written into its memory."""
NOTES = (
    "A step adds a worker's vector of int32 to a variable of the parameter server (TensorFlow's"
    " issues 4498 and 6116). GB/s: the bytes of a turn's steps divided by their time; 1 GB is 10^9"
    " bytes. local: vector and variable are in one process and one session, without a server.",
    "Figures are medians. Ratios compare turns of one round, and spread is the lowest and the"
    " highest round. empty ms: a step without a vector. cpu ms, tensors, RPCs, copies and socket"
    " bytes are per step, for all processes of the way together. tensors: vectors that Farwrite"
    " moved. RPCs: RecvTensor calls.",
    "The vector is the same in every step, so a small one may stay in the caches, on every way."
    " gRPC has TensorFlow's defaults. Every way has one thread per core and no graph optimizers.",
)


def in_megabytes(size: int) -> str:
    """Format a size as the issues do."""
    return f"{size / MEGABYTE:g} MB"


def memory(size: int) -> float:
    """Return the memory that a size needs, in bytes."""
    return MEMORY_PER_SIZE * size + SPARE_BYTES


def plan(arguments: Namespace, record: Record) -> Namespace:
    """Leave out the sizes that memory does not allow; otherwise the options are the plan."""
    arguments.sizes = affordable(record, "a vector", arguments.megabytes, memory, in_megabytes)
    return arguments


def measure(plan: Namespace, progress: Progress, logs: Path) -> Facts:
    """Measure everything in `plan`; the children's output goes to `logs`.

    A way has no further turns after a process failed, TensorFlow refused a step, or Farwrite did
    not move every vector.
    """
    rows: list[Row] = []
    progress(0.0, "starting processes")
    with ways.started({key: _way(key) for key in WAYS}, plan.fabric, logs) as running:
        for number, size in enumerate(plan.sizes):
            progress(number / len(plan.sizes), in_megabytes(size))
            load = os.getloadavg()[0]
            rows += make_rows(size, *_turns(plan, running, size), load)
            rows += (
                {"way": key, "fabric": None, "size": size, "error": reason}
                for key, reason in running.failed.items()
            )
    return {"rows": rows}


def _way(key: str) -> ways.Way:
    """Return two servers, and a client of stock TensorFlow; one process has no servers."""
    jobs = () if key == LOCAL.key else ("ps", "worker")
    cluster = ways.addresses(*jobs)
    target = f"grpc://{cluster['worker'][0]}" if jobs else ""
    return ways.Way(WAYS[key], cluster, jobs, Adding, (target,), GRPC)


def _turns(
    plan: Namespace, running: ways.Running, size: int
) -> tuple[dict[str, list[Turn]], dict[str, list[list[float]]]]:
    """Return each way's turns at one size, and the seconds of the empty steps beside each."""
    groups = running.groups
    turns: dict[str, list[Turn]] = {key: [] for key in groups}
    empty: dict[str, list[list[float]]] = {key: [] for key in groups}
    running.each(lambda _, group: group.client.ask(methodcaller("open", size)))
    for number, key in running.in_turn(plan.rounds):
        with running.trying(key):
            for what in (EMPTY, ADD) if number % 2 == 0 else (ADD, EMPTY):
                groups[key].seconds(Take(WARM_UP_STEPS, what))
                if what == ADD:
                    turns[key].append(groups[key].turn(Take(plan.steps, ADD)))
                else:
                    empty[key].append(groups[key].seconds(Take(plan.steps, EMPTY)))

    def close(key: str, group: Group) -> None:
        group.client.ask(methodcaller("close"))
        if not WAYS[key].stock:
            require_moved(size, ways.steps_of(turns[key]), totals(turns[key]))

    running.each(close)
    return running.only(turns), running.only(empty)


class Adding:
    """Adds a vector of ones to a variable, as the program of the issues does.

    A step fetches nothing, because its target is the assignment and not the variable's value.

    Parameters
    ----------
    tf : module
        TensorFlow.
    target : str
        The worker's server. With an empty one, session, vector and variable are in this process.
    """

    def __init__(self, tf: Any, target: str) -> None:
        self._tf, self._target = tf, target

    def open(self, size: int) -> None:
        """Open a session with a vector of `size` bytes."""
        tf = self._tf
        v1 = tf.compat.v1
        shape = [size // ELEMENT]
        with tf.Graph().as_default() as graph:
            with tf.device("/job:worker/task:0" if self._target else None):
                vector = v1.get_variable(
                    "vector", shape, tf.int32, v1.ones_initializer(), use_resource=True
                )
                idle = [tf.no_op()]
            with tf.device("/job:ps/task:0" if self._target else None):
                total = v1.get_variable(
                    "total", shape, tf.int32, v1.zeros_initializer(), use_resource=True
                )
                step = total.assign_add(vector, read_value=False)
                self._ends = [tf.reduce_min(total), tf.reduce_max(total)]
                idle.append(tf.no_op())
            initialize = v1.global_variables_initializer()
            self._destroy = [
                tf.raw_ops.DestroyResourceOp(resource=each.handle) for each in (vector, total)
            ]
        self._session = v1.Session(self._target, graph=graph, config=session_config(tf))
        self._session.run(initialize)
        self._full = self._session.make_callable(step)
        self._empty = self._session.make_callable(idle)
        self._added = 0

    def take(self, count: int, what: str) -> list[float]:
        """Run `count` steps, or empty ones, and return the seconds of each."""
        if what == EMPTY:
            return timed(self._empty, count)
        self._added += count
        return timed(self._full, count)

    def close(self) -> None:
        """Check every element of the variable, free both variables, and end the session."""
        low, high = (int(end) for end in self._session.run(self._ends))
        if low != self._added or high != self._added:
            raise Internal(
                f"bench assign: after {self._added} steps the variable's elements are between"
                f" {low} and {high} instead of {self._added}; report this"
            )
        self._session.run(self._destroy)
        self._session.close()


def make_rows(
    size: int,
    turns: Mapping[str, Sequence[Turn]],
    empty: Mapping[str, Sequence[Sequence[float]]],
    load: float,
) -> list[Row]:
    """Make the row of each way from its turns at one size, and its empty steps."""
    # Of one turn, in GB/s.
    rates = {
        key: [size * len(turn.seconds) / sum(turn.seconds) / 1e9 for turn in of_way]
        for key, of_way in turns.items()
    }
    rows = []
    for key, of_way in turns.items():
        total, steps = totals(of_way), ways.steps_of(of_way)
        ours = not WAYS[key].stock
        moved = {
            "tensors": sum(total.get(name, 0) for name in MOVED),
            "grpc_tensor_calls": total.get("grpc_recv_tensor_calls", 0),
            "copies": total.get("copies", 0),
        }
        seen = [name for each in of_way[-1].after for name in each.fabrics]
        rows.append(
            {
                "way": key,
                "fabric": fabric(WAYS[key], seen),
                "size": size,
                "gb_s": round(statistics.median(rates[key]), 3),
                "gb_s_rounds": [round(rate, 3) for rate in rates[key]],
                "times_grpc": ways.compared(rates, key, GRPC.key),
                "of_local": ways.compared(rates, key, LOCAL.key),
                "step_ms": round(median_ms([turn.seconds for turn in of_way]), 4),
                "empty_step_ms": round(median_ms(empty[key]), 4),
                **{name: count / steps if ours else None for name, count in moved.items()},
                **ways.spent_in(of_way, load),
            }
        )
    return rows


def require_moved(size: int, steps: int, total: Mapping[str, float]) -> None:
    """Check the counters of the steps over Farwrite.

    Raises
    ------
    FailedPrecondition
        If the plug-in moved fewer vectors than there were steps, or gRPC moved one.
    """
    moved = sum(total.get(name, 0) for name in MOVED)
    calls = total.get("grpc_recv_tensor_calls", 0)
    if moved >= steps and total.get("bytes_pushed", 0) >= steps * size and calls == 0:
        return
    reasons = ", ".join(
        f"{name} {value:g}" for name, value in sorted(total.items()) if "pulls_" in name and value
    )
    raise FailedPrecondition(
        f"bench assign: in {steps} steps with {in_megabytes(size)} Farwrite moved {moved:g} vectors"
        f" and gRPC moved {calls:g} ({reasons or 'no pull was counted'}), so the figures would not"
        " be Farwrite's; docs/reference/tensorflow.md explains the counters"
    )


def sentences(facts: Facts) -> list[str]:
    """Return one sentence for each size."""
    rows = rows_of(facts)
    gb_s = {(row["size"], row["way"]): row["gb_s"] for row in rows}
    return [
        f"{in_megabytes(row['size'])}: {row['gb_s']:.3g} GB/s over Farwrite,"
        f" {row['times_grpc']['median']:.3g} times the {gb_s[row['size'], GRPC.key]:.3g} GB/s over"
        f" stock gRPC, and {row['of_local']['median']:.2g} of the"
        f" {gb_s[row['size'], LOCAL.key]:.3g} GB/s in one process"
        for row in rows
        if row["way"] == FARWRITE.key and row["times_grpc"] and row["of_local"]
    ]


def gains(facts: Facts) -> list[Gain]:
    """Compare Farwrite with stock gRPC, by size."""
    return [
        Gain(
            f"assign_add of {in_megabytes(row['size'])}", row["times_grpc"]["median"], "stock gRPC"
        )
        for row in rows_of(facts)
        if row["way"] == FARWRITE.key and row["times_grpc"]
    ]


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(round(float(part) * MEGABYTE) for part in text.split(",") if part)
    except (ValueError, OverflowError):
        raise ArgumentTypeError(
            f"{text!r} is not a list of megabytes; use a list such as 10,100"
        ) from None
    if not sizes or any(size % ELEMENT or not 0 < size < GRPC_LIMIT for size in sizes):
        raise ArgumentTypeError(
            f"{text!r}: use sizes that are multiples of {ELEMENT} bytes and below {GRPC_LIMIT}"
            " bytes, the limit of stock gRPC"
        )
    return tuple(dict.fromkeys(sizes))


BENCHMARK = Benchmark(
    name="assign",
    example="farwrite bench assign --megabytes 10,100",
    description="Measure how many bytes per second assign_add adds to a variable of another task."
    " One process, stock gRPC and Farwrite take turns. This is the benchmark of TensorFlow's issues"
    " 4498 and 6116. Needs TensorFlow.",
    title="assign_add to a parameter server's variable",
    needs=("tensorflow",),
    libraries=lambda _: (PLUGIN,),
    options=(
        option.Option(
            "--megabytes",
            "sizes of the vector, in 10^6 bytes",
            SIZES,
            QUICK_SIZES,
            _sizes,
            "10,100,...",
            shown="10,100,400; --quick: 1,10",
        ),
        option.rounds(9, quick=2),
        option.steps(10),  # as in the program of the issues
        option.FABRIC,
    ),
    plan=plan,
    measure=measure,
    summary=lambda plan: (
        f"{', '.join(map(in_megabytes, plan.sizes))}, {plan.rounds} rounds of {plan.steps} steps"
        f" after {WARM_UP_STEPS} of warm-up, {fabric_in_words(plan.fabric)}"
    ),
    settings=lambda plan: {
        "sizes": plan.sizes,
        "rounds": plan.rounds,
        "steps": plan.steps,
        "warm_up_steps": WARM_UP_STEPS,
        "fabric": plan.fabric,
    },
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("size", "size", in_megabytes),
                Column("way", "way"),
                Column("fabric", "fabric"),
                Column("GB/s", "gb_s", ".3g"),
                span("spread", "gb_s_rounds", ".3g"),
                ratio("x grpc", "times_grpc", ".3g"),
                spread("spread", "times_grpc", ".3g"),
                ratio("of local", "of_local", ".2f"),
                Column("step ms", "step_ms", ".4g"),
                Column("empty ms", "empty_step_ms", ".3g"),
                Column("cpu ms", "cpu_ms", ".4g"),
                Column("tensors", "tensors", "g"),
                Column("RPCs", "grpc_tensor_calls", "g"),
                Column("copies", "copies", "g"),
                Column("socket bytes", "socket_bytes", ".0f"),
            ),
            named=2,
        ),
    ),
    sentences=sentences,
    charts=(
        Bars(
            "Rate of assign_add",
            group=lambda row: in_megabytes(row["size"]),
            value="gb_s",
            unit="GB/s",
            rounds="gb_s_rounds",
        ),
    ),
    gains=gains,
    gain_of="rate of stock gRPC",
)
