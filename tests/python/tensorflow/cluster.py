"""Real clusters on this machine: every task and every client a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite_bench.cluster.process import free_ports
from processes import stop
from warm_python import Forker, WarmPython

PROGRAMS = Path(__file__).parent / "programs"
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "1",
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "PYTHONFAULTHANDLER": "1",
    "PYTHONPATH": os.pathsep.join([str(PROGRAMS), *filter(None, [os.environ.get("PYTHONPATH")])]),
}
STOCK = "grpc"
FARWRITE = "grpc+farwrite"


@dataclass(frozen=True)
class Host:
    """Where a process runs: its address, and the path of its network namespace."""

    address: str = "127.0.0.1"
    network: str | None = None


HERE = Host()


FORKERS: dict[frozenset[tuple[str, str]], Forker] = {}
"""The open ones by the variables that TensorFlow was imported with, besides QUIET."""


@contextmanager
def forker(**variables: str) -> Iterator[None]:
    """Let processes with these variables be forked. ../conftest.py opens that of most tests."""
    key = frozenset(variables.items())
    FORKERS[key] = Forker({**os.environ, **QUIET, **variables}, "tensorflow")
    try:
        yield
    finally:
        FORKERS.pop(key).close()


def started(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stderr: Any,
    host: Host = HERE,
) -> subprocess.Popen[str]:
    """Start one of programs/, with all three streams."""
    variables = {**os.environ, **QUIET, **environment}
    path = PROGRAMS / program
    # What TensorFlow or Python may read when they are loaded needs a process that loads them.
    ours = ("FARWRITE_", "FARTEST_")
    loaded = {item for item in environment.items() if not item[0].startswith(ours)}
    if warm := FORKERS.get(frozenset(loaded)):
        return WarmPython([str(path), *arguments], variables, warm, host.network, stderr=stderr)
    assert host == HERE
    return subprocess.Popen(
        [sys.executable, str(path), *arguments],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


class Answering:
    """A process that answers each line on its standard input with one of JSON."""

    process: subprocess.Popen[str]

    def ask(self, what: str) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Task(Answering):
    """One server process."""

    def __init__(
        self,
        cluster: dict[str, list[str]],
        job: str,
        index: int,
        protocol: str,
        environment: Mapping[str, str],
        log: Path,
        host: Host = HERE,
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            arguments = [protocol, json.dumps(cluster), job, str(index)]
            self.process = started("task.py", arguments, environment, output, host)

    def wait_until_up(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.strip() == "up", f"the task did not start:\n{self.log.read_text()[-3000:]}"

    def stats(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask("stats")
        return answer

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """Stop the process with SIGSTOP, until SIGCONT."""
        stop(self.process.pid)


class Relays(Answering):
    """A process with a relay for each caller and callee of `faults`."""

    def __init__(
        self, faults: Mapping[tuple[str, str], str], tasks: Mapping[str, str], log: Path
    ) -> None:
        relays = [(tasks[callee], fault) for (_, callee), fault in faults.items()]
        with log.open("ab") as output:
            self.process = started("relay.py", [json.dumps(relays)], {}, output)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the relays did not start:\n{log.read_text()}"
        self.addresses = dict(zip(faults, json.loads(line), strict=True))

    def meetings(self) -> dict[tuple[str, str], int]:
        """Count the meetings that came to each relay."""
        return dict(zip(self.addresses, self.ask("meetings"), strict=True))


class Cluster:
    """Tasks of several jobs.

    `protocols`, `environments` and `hosts` may give one task, "ps0", others than the rest. With
    `relays`, {("ps0", "worker0"): "unmet"}, ps0 calls worker0 at a relay with this fault of
    programs/relay.py. The caller "client" stands for all programs.
    """

    def __init__(
        self,
        folder: Path,
        jobs: Mapping[str, int],
        protocol: str,
        environment: Mapping[str, str] | None = None,
        protocols: Mapping[str, str] | None = None,
        environments: Mapping[str, Mapping[str, str]] | None = None,
        hosts: Mapping[str, Host] | None = None,
        relays: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        self.folder = folder
        self.protocol = protocol
        self.environment = dict(environment or {})
        self.protocols = dict(protocols or {})
        self.environments = dict(environments or {})
        self.hosts = dict(hosts or {})
        ports = iter(free_ports(sum(jobs.values())))
        self.addresses = {
            job: [f"{self.host(f'{job}{n}').address}:{next(ports)}" for n in range(count)]
            for job, count in jobs.items()
        }
        self.tasks: dict[str, Task] = {}
        self.clients: list[subprocess.Popen[str]] = []
        self.relays: Relays | None = None
        try:
            if relays:
                tasks = {
                    f"{job}{n}": address
                    for job, addresses in self.addresses.items()
                    for n, address in enumerate(addresses)
                }
                self.relays = Relays(relays, tasks, folder / "relays.log")
            for job, count in jobs.items():
                for index in range(count):
                    self.start(job, index)
            for task in self.tasks.values():
                task.wait_until_up()
        except BaseException:
            self.close()
            raise

    def host(self, task: str) -> Host:
        return self.hosts.get(task, HERE)

    def meetings(self) -> dict[tuple[str, str], int]:
        """Count the meetings that came to each relay."""
        assert self.relays is not None
        return self.relays.meetings()

    def addresses_for(self, caller: str) -> dict[str, list[str]]:
        """Name the addresses at which a task, or "client", calls the tasks."""
        relayed = self.relays.addresses if self.relays is not None else {}
        return {
            job: [relayed.get((caller, f"{job}{n}"), own) for n, own in enumerate(addresses)]
            for job, addresses in self.addresses.items()
        }

    def start(self, job: str, index: int) -> Task:
        name = f"{job}{index}"
        task = Task(
            self.addresses_for(name),
            job,
            index,
            self.protocols.get(name, self.protocol),
            {**self.environment, **self.environments.get(name, {})},
            self.folder / f"{name}.log",
            self.host(name),
        )
        self.tasks[name] = task
        return task

    def start_program(
        self, program: str, *arguments: str, host: Host = HERE
    ) -> subprocess.Popen[str]:
        """Start programs/`program` as a client; it prints JSON as its last line."""
        addresses = json.dumps(self.addresses_for("client"))
        arguments = (self.protocol, addresses, *arguments)
        client = started(program, arguments, self.environment, subprocess.PIPE, host)
        self.clients.append(client)
        return client

    def run(self, program: str, *arguments: str, seconds: float = 100, host: Host = HERE) -> Any:
        client = self.start_program(program, *arguments, host=host)
        return finish(client, seconds)

    def stats(self) -> dict[str, dict[str, Any]]:
        return {name: task.stats() for name, task in self.tasks.items()}

    def total(self, counter: str) -> int:
        return sum(int(stats.get(counter, 0)) for stats in self.stats().values())

    def close(self) -> None:
        for client in self.clients:
            if client.poll() is None:  # a test failed
                client.kill()
                client.communicate()
        for task in self.tasks.values():
            if task.process.poll() is None:
                task.signal(signal.SIGCONT)
            task.kill()
        if self.relays is not None:
            self.relays.kill()


def finish(client: subprocess.Popen[str], seconds: float = 100) -> Any:
    """Wait for a client and return what its last line says."""
    try:
        output, errors = client.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        client.kill()
        output, errors = client.communicate()
        raise AssertionError(f"the client hangs:\n{output[-2000:]}\n{errors[-3000:]}") from None
    assert client.returncode == 0, f"the client failed:\n{output[-2000:]}\n{errors[-4000:]}"
    return json.loads(output.strip().splitlines()[-1])


@contextmanager
def cluster(
    folder: Path,
    jobs: Mapping[str, int],
    protocol: str = FARWRITE,
    environment: Mapping[str, str] | None = None,
    protocols: Mapping[str, str] | None = None,
    environments: Mapping[str, Mapping[str, str]] | None = None,
    hosts: Mapping[str, Host] | None = None,
    relays: Mapping[tuple[str, str], str] | None = None,
) -> Iterator[Cluster]:
    made = Cluster(folder, jobs, protocol, environment, protocols, environments, hosts, relays)
    try:
        yield made
    finally:
        made.close()
