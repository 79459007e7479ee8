"""The transport mpi: a turn in the ranks of one MPI program."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from farwrite.errors import Internal
from farwrite_bench.box.openmpi import OpenMpi, mpi_ranks
from farwrite_bench.grpc.plan import Case, Pace
from farwrite_bench.grpc.turn import Turn, figures
from farwrite_bench.program import ANSWER_SECONDS

MODULE = "farwrite_bench.grpc.mpi_rank"


@dataclass(frozen=True)
class Work:
    """The order to take a turn."""

    case: Case
    pace: Pace


@dataclass(frozen=True)
class Done:
    """A rank's figures of a turn, named as in the program's answers."""

    calls: int
    """Calls since the start, with those of the warm-up."""
    cpu_seconds: float
    peak_bytes: int
    wrong: int
    measured: dict[str, float] | None
    """Of a rank that calls: calls and seconds of the measured time, p50_us and p99_us."""


def take_turn(openmpi: OpenMpi, case: Case, pace: Pace, logs: Path) -> Turn:
    """Measure `case` once, in new ranks: the servers come first."""
    with mpi_ranks(openmpi, case.processes, logs / "mpi.log", MODULE) as ranks:
        for rank in ranks:
            rank.send(Work(case, pace))
        limit = pace.warm_up + pace.seconds + ANSWER_SECONDS
        answers = [rank.receive(limit) for rank in ranks]
    done = [answer for answer in answers if isinstance(answer, Done)]
    if len(done) != len(ranks):
        raise Internal(f"bench grpc: MPI ranks answered {answers!r}; report this")
    ended = [asdict(each) for each in done]
    measured = [each.measured for each in done if each.measured is not None]
    by_role = {"worker": ended[case.servers :], "server": ended[: case.servers]}
    return figures(case, measured, by_role)
