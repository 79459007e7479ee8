"""The rows of the result: what all of them have, and how transports take turns for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from farwrite_bench.failure import noting
from farwrite_bench.grpc.transport import OVER_SHM, Transport
from farwrite_bench.report.parts import Facts, Row, rows_of

FIELDS = (
    "benchmark",
    "transport",
    "scheme",
    "mode",
    "size",
    "p50_us",
    "p99_us",
    "gb_s",
    "rpc_s",
    "copies",
    "cpu_s_per_gb",
    "server_cpu_s_per_gb",
    "peak_bytes",
    "ratio_to_tcp",
    "target",
    "target_met",
    "rounds",
    "skipped",
    "error",
)
"""What every row has; figures that nothing measured are None."""
Begin = Callable[[str], None]
"""Is called with the name of a turn when it begins."""
Turn = TypeVar("Turn")


def in_turn(
    transports: Sequence[Transport],
    rounds: int,
    take: Callable[[Transport], Turn],
    failed: dict[str, str],
    end: Callable[[str], None] = lambda _: None,
) -> dict[str, list[Turn]]:
    """Let each transport take its turn in every round; return the turns by its key.

    Every second round goes backwards. A transport that has `failed`, before or now, has no further
    turn and is left out; `end` ends what it has started.
    """
    turns: dict[str, list[Turn]] = {transport.key: [] for transport in transports}
    for number in range(rounds):
        for transport in transports if number % 2 == 0 else transports[::-1]:
            if transport.key not in failed:
                with noting(failed, transport.key):
                    turns[transport.key].append(take(transport))
                if transport.key in failed:
                    end(transport.key)
    return {key: of_key for key, of_key in turns.items() if key not in failed}


def make_row(benchmark: str, transport: Transport, **known: object) -> Row:
    """Make a row of what is known."""
    return {**dict.fromkeys(FIELDS), "benchmark": benchmark, "transport": transport.key, **known}


def set_target(row: Row, target: str, met: bool) -> None:
    """Add the target of a row of Farwrite over shared memory; other rows have none."""
    if row["transport"] == OVER_SHM:
        row.update(target=target, target_met=met)


def compared(facts: Facts) -> list[Row]:
    """Return the rows of Farwrite that are compared with TCP."""
    return [
        row
        for row in rows_of(facts)
        if row["transport"].startswith("farwrite-") and row["ratio_to_tcp"] is not None
    ]
