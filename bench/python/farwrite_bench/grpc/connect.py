"""The connect benchmark: the time of new connections, and the memory of idle ones."""

from __future__ import annotations

import contextlib
import resource
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

from farwrite.errors import FailedPrecondition, InvalidArgument
from farwrite_bench.grpc.payload import PLAIN
from farwrite_bench.grpc.plan import CONNECT, FIRST_SIZE, NON_SERIALIZED, GrpcPlan
from farwrite_bench.grpc.process import SERVER, WORKER, Payloads, end, running
from farwrite_bench.grpc.rows import Begin, in_turn, make_row, set_target
from farwrite_bench.grpc.transport import TCP, Transport
from farwrite_bench.ratio import percentile
from farwrite_bench.report.parts import Row

FIRST, NEW, IDLE = "first", "new", "idle"
"""What a row is of: the first connection of two processes, those behind it, or idle ones."""
SPARE_DESCRIPTORS = 200
SETTLING = 16
"""Connections that are open before memory is read for the first time."""
MOST_TIME = 1.1
"""A connection's time, as a multiple of TCP's."""
MOST_IDLE_BYTES = 64 << 10
"""An idle connection's memory on each side, above TCP's."""


def rows(plan: GrpcPlan, begin: Begin, logs: Path) -> list[Row]:
    """Measure what connections cost, and return a row of each kind for each transport.

    A transport fails if a connection that should have been upgraded stayed on TCP.
    """
    transports = plan.transports_of(CONNECT)

    def open_some(transport: Transport) -> list[float]:
        """Return the microseconds of each connection with its first call."""
        begin(f"{CONNECT} open {transport.key}")
        with _pair(plan, transport, 1 + plan.pace.opened, logs) as (server, worker):
            turns = [worker.ask("open", n, server.address) for n in (1, plan.pace.opened)]
            return [each for turn in turns for each in turn["microseconds"]]

    def hold(transport: Transport) -> dict[str, float]:
        """Return the memory of an idle connection on each side."""
        begin(f"{CONNECT} idle {transport.key}")
        with _pair(plan, transport, SETTLING + plan.idle, logs) as (server, worker):
            used = []
            for count in (SETTLING, plan.idle):
                worker.ask("open", count, server.address)
                worker.ask("call")
                used.append((private_bytes(server.pid), private_bytes(worker.pid)))
            grown = [(after - before) / plan.idle for before, after in zip(*used, strict=True)]
            return dict(zip((SERVER, WORKER), grown, strict=True))

    failed: dict[str, str] = {}
    turns = in_turn(transports, plan.pace.connect_rounds, open_some, failed)
    not_held: dict[str, str] = dict(failed)
    held = in_turn(transports, 1, hold, not_held)
    first = {key: [turn[:1] for turn in of] for key, of in turns.items()}
    new = {key: [turn[1:] for turn in of] for key, of in turns.items()}
    memory = {key: used for key, (used,) in held.items()}
    return [
        *(_time_row(FIRST, each, first, failed) for each in transports),
        *(_time_row(NEW, each, new, failed) for each in transports),
        *(_idle_row(each, memory, plan.idle, not_held) for each in transports),
    ]


@contextlib.contextmanager
def _pair(
    plan: GrpcPlan, transport: Transport, connections: int, logs: Path
) -> Iterator[tuple[Payloads, Payloads]]:
    """Start a server and a worker; at the end all connections must have been upgraded."""
    members = {SERVER: 1, WORKER: 1}
    with running(
        plan, transport, CONNECT, members, logs, required=False, buffers=[FIRST_SIZE]
    ) as started:
        (server,), (worker,) = started[SERVER], started[WORKER]
        yield server, worker
        # A call behind the upgrade, so that no connection ends in the middle of it.
        worker.ask("call")
        end(started)
        for process in (worker, server) if transport.is_farwrite else ():
            counters = process.counters()
            if counters.upgraded != connections:
                raise FailedPrecondition(
                    f"bench grpc: {process.name} upgraded {counters.upgraded} of {connections}"
                    " connections, so the figures would not be Farwrite's; run the command again,"
                    " and report this if it repeats"
                )


def private_bytes(pid: int | None) -> int:
    """Return the memory that is a process's own, and its share of shared memory.

    That is the proportional set size of anonymous memory and of shared memory; files are left out.
    """
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
            total += int(line.split()[1]) << 10
    return total


def allow_descriptors(plan: GrpcPlan) -> None:
    """Raise the limit of descriptors, which child processes inherit.

    Raises
    ------
    InvalidArgument
        If the process may not have so many.
    """
    wanted = plan.idle + SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise InvalidArgument(
            f"bench grpc: {wanted} descriptors are needed and this process may have {hard}; raise"
            " the limit (ulimit -Hn), or lower --connections"
        )
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _row(kind: str, transport: Transport) -> Row:
    known = {"scheme": PLAIN, "mode": NON_SERIALIZED, "size": FIRST_SIZE}
    return make_row(CONNECT, transport, **known, connection=kind)


def _time_row(
    kind: str,
    transport: Transport,
    turns: Mapping[str, list[list[float]]],
    failed: Mapping[str, str],
) -> Row:
    row = _row(kind, transport)
    if transport.key in failed:
        return {**row, "error": failed[transport.key]}
    samples = [each for turn in turns[transport.key] for each in turn]
    medians = {key: [statistics.median(turn) for turn in of] for key, of in turns.items()}
    mine = medians[transport.key]
    row["p50_us"], row["p99_us"] = statistics.median(samples), percentile(samples, 0.99)
    row["rounds"] = [{"p50_us": each} for each in mine]
    if TCP in turns:
        times = [one / base for one, base in zip(mine, medians[TCP], strict=True)]
        of_tcp = statistics.median(times)
        row.update(of_tcp=of_tcp, of_tcp_spread=[min(times), max(times)], ratio_to_tcp=1 / of_tcp)
        if kind == NEW:
            set_target(row, f"<= {MOST_TIME} of tcp's", of_tcp <= MOST_TIME)
    return row


def _idle_row(
    transport: Transport,
    held: Mapping[str, dict[str, float]],
    idle: int,
    failed: Mapping[str, str],
) -> Row:
    row = {**_row(IDLE, transport), "connections": idle}
    if transport.key in failed:
        return {**row, "error": failed[transport.key]}
    mine = held[transport.key]
    row["bytes_of_connection"] = mine
    if TCP in held:
        above = {role: mine[role] - held[TCP][role] for role in mine}
        row["bytes_above_tcp"] = above
        met = max(above.values()) <= MOST_IDLE_BYTES
        set_target(row, f"<= {MOST_IDLE_BYTES >> 10} KiB above tcp", met)
    return row
