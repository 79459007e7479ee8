"""One turn: starts the processes of a case over one transport, and reads their figures."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.grpc.counters import read_counters
from farwrite_bench.grpc.plan import SERIALIZED, Case, Pace
from farwrite_bench.grpc.program import ANSWER_SECONDS, Program
from farwrite_bench.grpc.transport import STATS, UDS, Transport


@dataclass(frozen=True)
class Turn:
    """The figures of a turn."""

    p50_us: float
    """Of a call; the slowest worker's."""
    p99_us: float
    rpc_s: float
    """Calls of all workers together, per second."""
    gb_s: float
    """Their payloads, in both directions."""
    cpu_s_per_gb: float
    """Processor seconds of all processes for 10^9 bytes of payloads."""
    peak_bytes: dict[str, int]
    """The largest resident memory of a server and of a worker."""
    copies: float | None = None
    """Staged bytes of all processes for a byte of payload; None where nobody counts them."""
    tuning: str = ""
    """How the program set up gRPC."""


def figures(
    case: Case,
    measured: list[dict[str, Any]],
    ended: dict[str, list[dict[str, Any]]],
    staged_bytes: int | None = None,
    tuning: str = "",
) -> Turn:
    """Turn the answers of workers and of all processes, by role, into figures."""
    everybody = [answer for answers in ended.values() for answer in answers]
    rate = sum(answer["calls"] / answer["seconds"] for answer in measured)
    calls = sum(answer["calls"] for answer in everybody)
    in_all = sum(answer["calls_in_all"] for answer in everybody)
    if any(answer["wrong"] for answer in everybody):
        raise Internal("bench grpc: a server received a damaged payload; report this")
    return Turn(
        p50_us=max(answer["p50_us"] for answer in measured),
        p99_us=max(answer["p99_us"] for answer in measured),
        rpc_s=rate,
        gb_s=rate * case.bytes_of_call / 1e9,
        cpu_s_per_gb=sum(answer["cpu_seconds"] for answer in everybody)
        / (calls * case.bytes_of_call / 1e9),
        peak_bytes={
            role: max(answer["peak_bytes"] for answer in answers)
            for role, answers in ended.items()
            if answers
        },
        copies=None if staged_bytes is None else staged_bytes / (in_all * case.bytes_of_call),
        tuning=tuning,
    )


def take_turn(
    executable: Path, case: Case, transport: Transport, pace: Pace, host: str, logs: Path
) -> Turn:
    """Measure `case` over `transport` once, in new processes."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="farwrite-grpc-")))

        def start(role: str, number: int, *arguments: str) -> Program:
            name = f"{role} {number} of {case.benchmark} over {transport.key}"
            return stack.enter_context(
                Program(
                    name,
                    transport.command(str(executable), *_arguments(case), *arguments),
                    {**transport.variables, STATS: str(folder / f"{role}-{number}.stats")},
                    logs / f"{transport.key}-{role}-{number}.log",
                )
            )

        servers = [
            start("server", n, "--listen", _listen(transport, host, folder, n))
            for n in range(case.servers)
        ]
        workers = [start("worker", n) for n in range(case.workers)]
        greetings = {process: process.answer() for process in (*servers, *workers)}
        addresses = [greetings[server]["address"] for server in servers]
        callers = workers or servers
        for caller in callers:
            own = greetings[caller]["address"]
            caller.order("connect", *(each for each in addresses if each != own))
        for caller in callers:
            caller.answer()
        for process in (*servers, *workers):
            process.ask("start")
        for caller in callers:
            caller.order("measure", pace.warm_up, pace.seconds)
        limit = pace.warm_up + pace.seconds + ANSWER_SECONDS
        measured = [caller.answer(limit) for caller in callers]
        # Workers end first, so that their connections end in order.
        ended = {"worker": [worker.ask("end") for worker in workers]}
        for worker in workers:
            worker.wait()
        ended["server"] = [server.ask("end") for server in servers]
        for server in servers:
            server.wait()
        staged = None
        if transport.is_farwrite:
            named = {"server": servers, "worker": workers}
            staged = sum(
                read_counters(
                    folder / f"{role}-{number}.stats", greetings[process]["pid"], process.name
                ).staged_bytes
                for role, processes in named.items()
                for number, process in enumerate(processes)
            )
        return figures(case, measured, ended, staged, greetings[callers[0]]["tuning"])


def _arguments(case: Case) -> list[str]:
    return [
        *("--buffers", ",".join(map(str, case.payload.buffers))),
        *("--outstanding", str(case.outstanding)),
        *("--server-threads", str(case.server_threads)),
        *(["--serialized"] if case.mode == SERIALIZED else []),
        *([] if case.echo else ["--acknowledge"]),
        *(["--reuse"] if case.reuse else []),
    ]


def _listen(transport: Transport, host: str, folder: Path, number: int) -> str:
    return f"unix:{folder}/server-{number}" if transport.key == UDS else f"{host}:0"
