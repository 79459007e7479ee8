"""The processes of a run: two servers for each transport, one for `local`, and the client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from farwrite.errors import Internal
from farwrite_bench.cluster import seat
from farwrite_bench.cluster.control import Control
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.process import Task, free_addresses
from farwrite_bench.cluster.readings import Readings
from farwrite_bench.cluster.seat import Seat, Threads
from farwrite_bench.cluster.transport import Transport, forced
from farwrite_bench.tensor.plan import LOCAL, RAW, Connect, Look

# TensorFlow's defaults: one thread per core. TensorFlow's gRPC does not limit message sizes.
THREADS = Threads()
_SERVER = ForkedTask, "farwrite_bench.cluster.server"
_RAW = Task, "farwrite_bench.tensor.raw"


@dataclass(frozen=True)
class Bench:
    """The client, and the servers of each transport."""

    client: Control
    servers: dict[str, list[Control]]

    def look(self, transport: str) -> list[Readings]:
        """Take the readings of all processes of this transport, and of the client."""
        answers = [server.ask(seat.Look()) for server in self.servers[transport]]
        answers.append(self.client.ask(Look()))
        readings = [answer for answer in answers if isinstance(answer, Readings)]
        if len(readings) != len(answers):
            raise Internal(f"bench: unexpected answers of tasks: {answers!r}; report this")
        return readings


@contextlib.contextmanager
def bench(
    transports: Sequence[Transport], logs: Path, fabric: str | None = None
) -> Iterator[Bench]:
    """Start all processes, and end them at the end. `fabric` is the one that Farwrite must use."""
    variables = forced(fabric)
    with contextlib.ExitStack() as stack:
        servers: dict[str, list[Control]] = {}
        targets = {}
        for transport in transports:
            key = transport.key
            jobs = ["worker"] if transport in (LOCAL, RAW) else ["ps", "worker"]
            addresses = dict(zip(jobs, free_addresses(len(jobs)), strict=True))
            cluster = {job: [address] for job, address in addresses.items()}
            targets[key] = f"grpc://{addresses['worker']}"
            servers[key] = []
            found_by = transport.variables(cluster)
            for job in jobs:
                kind, module = _RAW if transport is RAW else _SERVER
                task = stack.enter_context(
                    kind(
                        f"{key} {job}",
                        module,
                        {**transport.environment, **variables, **found_by},
                        logs / f"{key}-{job}.log",
                    )
                )
                task.send(Seat(cluster, job, 0, transport, THREADS))
                servers[key].append(task)
        client = stack.enter_context(
            ForkedTask("client", "farwrite_bench.tensor.client", {}, logs / "client.log")
        )
        for task in (client, *(task for tasks in servers.values() for task in tasks)):
            task.receive()
        client.ask(Connect(targets))
        yield Bench(client, servers)
