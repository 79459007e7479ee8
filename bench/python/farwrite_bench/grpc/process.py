"""The processes of a turn: a program of gRPC over one transport, and what Farwrite counted."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from farwrite.errors import FailedPrecondition
from farwrite_bench.grpc.plan import GrpcPlan
from farwrite_bench.grpc.transport import UDS, Transport
from farwrite_bench.program import Program

STATS = "FARWRITE_GRPC_STATS"
"""Names the file to which the component appends its counters when the process ends."""
QUIET = {"GRPC_VERBOSITY": "ERROR", "no_grpc_proxy": "127.0.0.1,localhost"}
SERVER, WORKER = "server", "worker"
Answers = dict[str, list[dict[str, Any]]]
"""Of all processes, by role."""


@dataclass(frozen=True)
class Counters:
    """The counters of one process."""

    upgraded: int
    """Connections that Farwrite carried."""
    stayed: dict[str, int]
    """Connections that stayed with their socket, by reason."""
    sent_bytes: int
    """Bytes that gRPC sent, with its own headers."""
    staged_bytes: int
    """Copied to where the peer can read them."""
    borrowed_bytes: int
    """Copied because gRPC has no reference count of them."""
    message_bytes: int
    """Copied into a message, and by the peer out of it."""
    read_bytes: int
    """Received by a one-sided read of the peer's memory; on one host the processor copies them."""

    def copied_bytes(self, one_host: bool) -> int:
        """Return the bytes that Farwrite, not the kernel, copied; `one_host`: a read is a copy."""
        by_sender = self.staged_bytes + self.borrowed_bytes
        return by_sender + 2 * self.message_bytes + (self.read_bytes if one_host else 0)


def read_counters(file: Path, pid: int | None, process: str) -> Counters:
    """Return the counters of process `pid`; without one, of the first process that wrote them.

    Raises
    ------
    FailedPrecondition
        If there are none, or a connection of the process was not upgraded. The row of such a turn
        would show something other than Farwrite.
    """
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    found = [each for each in map(json.loads, lines) if pid in (None, each["pid"])]
    if not found:
        raise FailedPrecondition(
            f"bench grpc: {process} wrote no counters of Farwrite, so its bytes"
            " did not go over Farwrite; check that `farwrite run --grpc` works here"
        )
    counters = Counters(**{each.name: found[0][each.name] for each in fields(Counters)})
    if counters.upgraded < 1 or counters.stayed:
        reasons = ", ".join(f"{reason} ({n})" for reason, n in counters.stayed.items())
        raise FailedPrecondition(
            f"bench grpc: Farwrite carried {counters.upgraded} connections of {process}, and its"
            f" other bytes went elsewhere; connections that stayed: {reasons or 'none'}"
        )
    return counters


class Process(Program):
    """A running program over a transport.

    Parameters
    ----------
    name : str
        Name in messages.
    command : sequence of str
        The program and its arguments, without what carries its bytes.
    log : Path
        File for standard error; the counters are in a file beside it.
    """

    def __init__(
        self,
        transport: Transport,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        required: bool = True,
        **variables: str,
    ) -> None:
        self.pid: int | None = None
        """Of the program itself; None until it is known, because `farwrite run` has another."""
        self._stats = log.with_suffix(".stats")
        self._stats.unlink(missing_ok=True)
        super().__init__(
            "bench grpc",
            f"{name}, over {transport.key}",
            transport.command(*command, required=required),
            {**QUIET, **transport.variables, STATS: str(self._stats), **variables},
            log=log,
            # What runs the program is ended together with it. The program also ends by itself, at
            # the end of its orders, if this process is killed.
            own_group=True,
        )

    def counters(self) -> Counters:
        """Return the counters of the process, which has ended; see `read_counters`."""
        return read_counters(self._stats, self.pid, self.name)


class Payloads(Process):
    """A process of this benchmark's own program."""

    address = grpc = ""

    def greet(self) -> None:
        """Wait until it has started."""
        started = self.answer()
        self.pid, self.address, self.grpc = started["pid"], started["address"], started["grpc"]


@contextlib.contextmanager
def running(
    plan: GrpcPlan,
    transport: Transport,
    what: str,
    members: Mapping[str, int],
    logs: Path,
    *,
    required: bool = True,
    **options: object,
) -> Iterator[dict[str, list[Payloads]]]:
    """Start so many servers and workers of the program, with these options of payloads.proto.

    Raises
    ------
    PeerDead
        If a process fails.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="farwrite-grpc-"))
        started: dict[str, list[Payloads]] = {role: [] for role in members}
        for role, number in ((role, n) for role, count in members.items() for n in range(count)):
            own: dict[str, object] = {"arguments": plan.arguments_of(transport)}
            if role == SERVER:
                unix = f"unix:{folder}/{number}"
                own["listen"] = unix if transport.key == UDS else f"{plan.host}:0"
            process = Payloads(
                transport,
                f"{role} {number} of {what}",
                [str(plan.tools.payloads), json.dumps({**options, **own})],
                logs / f"{transport.key}-{role}-{number}.log",
                required=required,
            )
            stack.enter_context(process)
            started[role].append(process)
        for processes in started.values():
            for process in processes:
                process.greet()
        yield started


def end(started: Mapping[str, Sequence[Payloads]]) -> Answers:
    """End all processes: workers first, so that servers end without connections."""
    ended: Answers = {}
    for role in (WORKER, SERVER):
        ended[role] = [process.ask("end") for process in started[role]]
        for process in started[role]:
            process.wait()
    return ended
