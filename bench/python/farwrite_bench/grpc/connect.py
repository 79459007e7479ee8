"""The connect benchmark: the time of new connections, and the memory of idle ones."""

from __future__ import annotations

import contextlib
import math
import resource
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farwrite.errors import FailedPrecondition, InvalidArgument
from farwrite_bench.grpc.counters import read_counters
from farwrite_bench.grpc.payload import PLAIN
from farwrite_bench.grpc.plan import (
    CONNECT,
    FIRST_SIZE,
    NON_SERIALIZED,
    ConnectPlan,
    GrpcPlan,
)
from farwrite_bench.grpc.rows import MOST_CONNECT_TIME, MOST_IDLE_BYTES, empty_row, set_target
from farwrite_bench.grpc.transport import STATS, TCP, Transport
from farwrite_bench.grpc.turn import Begin, listen_address, settings_of_grpc, start_program
from farwrite_bench.program import Program
from farwrite_bench.report.parts import Row

FIRST, NEW, IDLE = "first", "new", "idle"
"""What a row is of: the first connection of two processes, those behind it, or idle ones."""
SPARE_DESCRIPTORS = 200
SETTLING = 16
"""Connections that are open before memory is read for the first time."""
IDLE_TARGET = f"<= {MOST_IDLE_BYTES >> 10} KiB above tcp"
TIME_TARGET = f"<= {MOST_CONNECT_TIME} of tcp's"


@dataclass(frozen=True)
class Opened:
    """Microseconds of a turn's connections, each with its first call."""

    first: float
    new: list[float]


class ConnectBenchmark:
    """Measures what a plan's connections cost."""

    def __init__(self, plan: GrpcPlan, connect: ConnectPlan, executable: Path, logs: Path) -> None:
        self.grpc = ""
        self._plan, self._connect = plan, connect
        self._executable, self._logs = executable, logs
        self._transports = plan.transports_of(CONNECT, NON_SERIALIZED)

    def rows(self, begin: Begin) -> list[Row]:
        """Measure, and return a row of each kind for each transport.

        Raises
        ------
        InvalidArgument
            If the process may not have so many descriptors.
        FailedPrecondition
            If a connection that should have been upgraded stayed on TCP.
        """
        _allow_descriptors(self._connect.idle + SPARE_DESCRIPTORS)
        turns: dict[str, list[Opened]] = {}
        for number in range(self._connect.rounds):
            order = self._transports if number % 2 == 0 else self._transports[::-1]
            for transport in order:
                self._show(begin, transport, "open")
                turns.setdefault(transport.key, []).append(self._open(transport))
        held = {}
        for transport in self._transports:
            self._show(begin, transport, "idle")
            held[transport.key] = self._hold(transport)
        return [
            *(_time_row(FIRST, each, turns) for each in self._transports),
            *(_time_row(NEW, each, turns) for each in self._transports),
            *(_idle_row(each, held, self._connect.idle) for each in self._transports),
        ]

    def _show(self, begin: Begin, transport: Transport, what: str) -> None:
        seconds = self._connect.seconds(transport) / (self._connect.rounds + 1)
        begin(f"{CONNECT} {what} {transport.key}", seconds)

    def _open(self, transport: Transport) -> Opened:
        with self._pair(transport, 1 + self._connect.opened) as (worker, address, _):
            (first,) = worker.ask("open", 1, address)["microseconds"]
            new = worker.ask("open", self._connect.opened, address)["microseconds"]
            return Opened(first, new)

    def _hold(self, transport: Transport) -> dict[str, float]:
        """Return the memory of an idle connection on each side."""
        idle = self._connect.idle
        with self._pair(transport, SETTLING + idle) as (worker, address, pids):
            worker.ask("open", SETTLING, address)
            worker.ask("call")
            before = {role: private_bytes(pid) for role, pid in pids.items()}
            worker.ask("open", idle, address)
            worker.ask("call")
            return {role: (private_bytes(pid) - before[role]) / idle for role, pid in pids.items()}

    @contextlib.contextmanager
    def _pair(
        self, transport: Transport, connections: int
    ) -> Iterator[tuple[Program, str, dict[str, int]]]:
        """Start a server and a worker; yield the worker, the server's address and both pids.

        At the end, all connections must have been upgraded.
        """
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="farwrite-grpc-")))

            def start(role: str, *own: str) -> Program:
                command = transport.command(
                    str(self._executable),
                    *("--buffers", str(FIRST_SIZE)),
                    *settings_of_grpc(self._plan.arguments_of(transport)),
                    *own,
                    required=False,
                )
                return stack.enter_context(
                    start_program(
                        f"{role} of {CONNECT}, over {transport.key}",
                        command,
                        {**transport.variables, STATS: str(folder / role)},
                        self._logs / f"{transport.key}-{role}.log",
                    )
                )

            address = listen_address(transport, self._plan.host, folder, 0)
            members = {"server": start("server", "--listen", address), "worker": start("worker")}
            greetings = {role: each.answer() for role, each in members.items()}
            self.grpc = greetings["server"]["grpc"]
            # What runs a program has another process number.
            pids = {role: greeting["pid"] for role, greeting in greetings.items()}
            yield members["worker"], greetings["server"]["address"], pids
            # A call behind the upgrade, so that no connection ends in the middle of it.
            members["worker"].ask("call")
            for role in ("worker", "server"):
                members[role].ask("end")
                members[role].wait()
            if not transport.is_farwrite:
                return
            for role, member in members.items():
                counters = read_counters(folder / role, pids[role], member.name)
                if counters.upgraded != connections:
                    stayed = ", ".join(f"{each}: {why}" for why, each in counters.stayed.items())
                    raise FailedPrecondition(
                        f"bench grpc: {member.name} upgraded {counters.upgraded} of {connections}"
                        f" connections (stayed with TCP: {stayed or 'none'}), so the figures would"
                        " not be Farwrite's; run the command again, and report this if it repeats"
                    )


def private_bytes(pid: int) -> int:
    """Return the memory that is a process's own, and its share of shared memory.

    That is the proportional set size of anonymous memory and of shared memory; files are left out.
    """
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
            total += int(line.split()[1]) << 10
    return total


def _allow_descriptors(wanted: int) -> None:
    """Raise the limit of descriptors, which child processes inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise InvalidArgument(
            f"bench grpc: {wanted} descriptors are needed and this process may have {hard}; raise"
            " the limit (ulimit -Hn), or lower --connections"
        )
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _row(kind: str, transport: Transport) -> Row:
    row = empty_row(CONNECT, transport)
    row.update(scheme=PLAIN, mode=NON_SERIALIZED, size=FIRST_SIZE, connection=kind)
    return row


def _time_row(kind: str, transport: Transport, turns: dict[str, list[Opened]]) -> Row:
    def of_round(turn: Opened) -> float:
        return turn.first if kind == FIRST else statistics.median(turn.new)

    row = _row(kind, transport)
    mine = turns[transport.key]
    samples = sorted(
        each for turn in mine for each in ([turn.first] if kind == FIRST else turn.new)
    )
    row["p50_us"] = statistics.median(samples)
    row["p99_us"] = samples[math.ceil(0.99 * len(samples)) - 1]
    row["rounds"] = [{"p50_us": of_round(turn)} for turn in mine]
    if TCP in turns:
        times = [of_round(one) / of_round(base) for one, base in zip(mine, turns[TCP], strict=True)]
        of_tcp = statistics.median(times)
        row.update(of_tcp=of_tcp, of_tcp_spread=[min(times), max(times)], ratio_to_tcp=1 / of_tcp)
        if kind == NEW:
            set_target(row, TIME_TARGET, of_tcp <= MOST_CONNECT_TIME)
    return row


def _idle_row(transport: Transport, held: dict[str, dict[str, float]], connections: int) -> Row:
    row = _row(IDLE, transport)
    mine = held[transport.key]
    row.update(connections=connections, bytes_of_connection=mine)
    if TCP in held:
        above = {role: mine[role] - held[TCP][role] for role in mine}
        row["bytes_above_tcp"] = above
        set_target(row, IDLE_TARGET, max(above.values()) <= MOST_IDLE_BYTES)
    return row
