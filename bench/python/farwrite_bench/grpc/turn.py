"""One turn: starts the processes of a case over one transport, and reads their figures."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.grpc.counters import read_counters
from farwrite_bench.grpc.plan import SERIALIZED, Case, GrpcPlan, Pace
from farwrite_bench.grpc.transport import STATS, UDS, Transport
from farwrite_bench.program import ANSWER_SECONDS, Program

Begin = Callable[[str, float], None]
"""Is called when a turn begins, with its name and about how many seconds it takes."""
QUIET = {"GRPC_VERBOSITY": "ERROR", "no_grpc_proxy": "127.0.0.1,localhost"}


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
    server_cpu_s_per_gb: float
    """The same of the servers alone."""
    peak_bytes: dict[str, int]
    """The largest resident memory of a server and of a worker."""
    copies: float | None = None
    """How often Farwrite copied a byte that gRPC sent; None where nothing counts that."""
    grpc: str = ""
    """The version of gRPC."""


def figures(
    case: Case,
    measured: list[dict[str, Any]],
    ended: dict[str, list[dict[str, Any]]],
    copies: float | None = None,
    grpc: str = "",
) -> Turn:
    """Turn the answers of workers and of all processes, by role, into figures."""
    everybody = [answer for answers in ended.values() for answer in answers]
    servers = ended.get("server", [])
    rate = sum(answer["calls"] / answer["seconds"] for answer in measured)
    calls = sum(answer["calls"] for answer in everybody)
    gigabytes = calls * case.bytes_of_call / 1e9
    if any(answer["wrong"] for answer in everybody):
        raise Internal("bench grpc: a server received a damaged payload; report this")
    return Turn(
        p50_us=max(answer["p50_us"] for answer in measured),
        p99_us=max(answer["p99_us"] for answer in measured),
        rpc_s=rate,
        gb_s=rate * case.bytes_of_call / 1e9,
        cpu_s_per_gb=sum(answer["cpu_seconds"] for answer in everybody) / gigabytes,
        server_cpu_s_per_gb=sum(answer["cpu_seconds"] for answer in servers) / gigabytes,
        peak_bytes={
            role: max(answer["peak_bytes"] for answer in answers)
            for role, answers in ended.items()
            if answers
        },
        copies=copies,
        grpc=grpc,
    )


def take_turn(
    executable: Path, case: Case, transport: Transport, plan: GrpcPlan, logs: Path
) -> Turn:
    """Measure `case` over `transport` once, in new processes.

    Raises
    ------
    PeerDead
        If a process fails.
    FailedPrecondition
        If Farwrite should have carried the bytes and did not.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="farwrite-grpc-")))
        what = f"{case.benchmark}, {case.payload.scheme}, {case.payload.bytes} B, {case.mode}"
        arguments = [*_of_case(case), *settings_of_grpc(plan.arguments_of(transport))]

        def start(role: str, number: int, *own: str) -> _Member:
            stats = folder / f"{role}-{number}.stats"
            program = start_program(
                f"{role} {number} of {what}, over {transport.key}",
                transport.command(str(executable), *arguments, *own),
                {**transport.variables, STATS: str(stats)},
                logs / f"{transport.key}-{role}-{number}.log",
            )
            return _Member(stack.enter_context(program), stats)

        servers = [
            start(
                "server", number, "--listen", listen_address(transport, plan.host, folder, number)
            )
            for number in range(case.servers)
        ]
        workers = [start("worker", number) for number in range(case.workers)]
        for member in (*servers, *workers):
            member.greeting = member.program.answer()
        measured = _measure(servers, workers, plan.pace)
        # Workers end first, so that servers end without connections.
        ended = {"worker": _end(workers), "server": _end(servers)}
        copies = _copies((*servers, *workers), transport) if transport.is_farwrite else None
        return figures(case, measured, ended, copies, servers[0].greeting["grpc"])


def start_program(
    name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
) -> Program:
    """Start a process of the program, with these variables besides those of this process."""
    # What runs the program is ended together with it. The program also ends by itself, at the end
    # of its orders, if this process is killed.
    return Program("bench grpc", name, command, {**QUIET, **environment}, log=log, own_group=True)


@dataclass
class _Member:
    """A process of a turn."""

    program: Program
    stats: Path
    greeting: dict[str, Any] = field(default_factory=dict)


def _measure(servers: list[_Member], workers: list[_Member], pace: Pace) -> list[dict[str, Any]]:
    """Let workers call servers, or servers each other if there are no workers."""
    callers = workers or servers
    addresses = [server.greeting["address"] for server in servers]
    for caller in callers:
        others = [address for address in addresses if address != caller.greeting["address"]]
        caller.program.order("connect", *others)
    for caller in callers:
        caller.program.answer()
    _call(callers, pace.warm_up)
    # Processor time is counted from here, without what the first calls allocate.
    for member in (*servers, *workers):
        member.program.ask("start")
    return _call(callers, pace.seconds)


def _call(callers: list[_Member], seconds: float) -> list[dict[str, Any]]:
    for caller in callers:
        caller.program.order("measure", 0, seconds)
    return [caller.program.answer(seconds + ANSWER_SECONDS) for caller in callers]


def _end(members: list[_Member]) -> list[dict[str, Any]]:
    answers = [member.program.ask("end") for member in members]
    for member in members:
        member.program.wait()
    return answers


def _copies(members: Iterable[_Member], transport: Transport) -> float:
    counters = [
        read_counters(member.stats, member.greeting["pid"], member.program.name)
        for member in members
    ]
    copied = sum(each.copied_bytes(transport.maps_peers) for each in counters)
    return copied / sum(each.sent_bytes for each in counters)


def _of_case(case: Case) -> list[str]:
    return [
        *("--buffers", ",".join(map(str, case.payload.buffers))),
        *("--outstanding", str(case.outstanding)),
        *("--server-threads", str(case.server_threads)),
        *(["--serialized"] if case.mode == SERIALIZED else []),
        *([] if case.echo else ["--acknowledge"]),
        *(["--reuse"] if case.reuse else []),
        *([] if case.reads else ["--unread"]),
    ]


def settings_of_grpc(settings: Mapping[str, int]) -> Iterator[str]:
    """Yield the program's arguments for these settings of gRPC."""
    for name, value in settings.items():
        yield from ("--argument", f"{name}={value}")


def listen_address(transport: Transport, host: str, folder: Path, number: int) -> str:
    """Return where server `number` listens."""
    return f"unix:{folder}/server-{number}" if transport.key == UDS else f"{host}:0"
