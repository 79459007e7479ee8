"""The transport rpc-over-fabric gives what stock TensorFlow gives, and gRPC carries no tensor."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farwrite_bench.cluster import plugin
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.process import Task, free_addresses
from farwrite_bench.cluster.readings import Readings, spent
from farwrite_bench.cluster.seat import Look, Seat, Threads
from farwrite_bench.cluster.transport import FARWRITE, GRPC, PLUGIN, Transport
from farwrite_experiments.library import MODULE
from farwrite_experiments.rpc_over_fabric import PEERS, RPC_OVER_FABRIC, peers

JOBS = ("ps", "worker")
CASES = ("floats", "strings", "nothing", "dead", "larger_than_the_ring", "both_ways_at_once")
MANY = 8  # tensors of the case "floats"
USUAL_ERRORS = "(UnavailableError|AbortedError|InternalError)"  # of TensorFlow, without a peer
NEW_SESSIONS = 5  # the first ones may still find the peer gone


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two servers, and the target of the second one."""

    servers: list[Task]
    target: str
    start: Callable[[str], Task]
    """Starts the server of a job at its addresses."""

    def restart(self, job: str) -> None:
        """Kill the server of a job, and start it again."""
        at = JOBS.index(job)
        self.servers[at]._process.kill()
        self.servers[at]._process.join()
        self.servers[at] = self.start(job)
        self.servers[at].receive()

    def look(self) -> list[Readings]:
        answers = [server.ask(Look()) for server in self.servers]
        return [answer for answer in answers if isinstance(answer, Readings)]


@contextlib.contextmanager
def pair(folder: Path, transport: Transport, environment: dict[str, str]) -> Iterator[Pair]:
    """Start both servers. `environment` may replace the addresses of their devices."""
    addresses = dict(zip(JOBS, free_addresses(len(JOBS)), strict=True))
    cluster = {job: [address] for job, address in addresses.items()}
    environment = {**transport.variables(cluster), **environment}
    with contextlib.ExitStack() as stack:

        def start(job: str) -> Task:
            log = folder / f"{job}.log"
            server = ForkedTask(job, "farwrite_bench.cluster.server", environment, log)
            stack.enter_context(server)
            server.send(Seat(cluster, job, 0, transport, Threads()))
            return server

        servers = [start(job) for job in JOBS]
        for server in servers:
            server.receive()
        yield Pair(servers, f"grpc://{addresses['worker']}", start)


Run = Callable[[str, Pair], str]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Task]:
    """A process with stock TensorFlow that runs the steps."""
    folder = tmp_path_factory.mktemp("client")
    plugin.make_ready(folder / "library.log", MODULE)
    with ForkedTask("client", "rpc_cases", {}, folder / "client.log") as task:
        assert task.receive() == "ready"
        yield task


@pytest.fixture(scope="module")
def run(client: Task) -> Run:
    """Runs a case, and returns its digest."""
    return lambda case, servers: str(client.ask((case, servers.target)))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, run: Run) -> dict[str, str]:
    """The digest of each case under stock TensorFlow."""
    with pair(tmp_path_factory.mktemp("stock"), GRPC, {}) as servers:
        found = {case: run(case, servers) for case in CASES}
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in found.values()), found
    return found


@pytest.fixture(scope="module", params=["shm", pytest.param("tcp", marks=pytest.mark.slow)])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Pair]]:
    """The servers of rpc-over-fabric over each fabric."""
    fabric = request.param
    environment = {"FARWRITE_FABRICS": fabric}
    with pair(tmp_path_factory.mktemp(fabric), RPC_OVER_FABRIC, environment) as started:
        yield fabric, started


@pytest.mark.timeout(240)  # TensorFlow twice, on a machine that may be busy
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_stock(
    servers: tuple[str, Pair], run: Run, expected: dict[str, str], case: str
) -> None:
    assert run(case, servers[1]) == expected[case]


def test_each_tensor_is_one_request_and_two_copies(servers: tuple[str, Pair], run: Run) -> None:
    fabric, started = servers
    before = started.look()
    run("floats", started)
    after = started.look()
    total = spent(before, after)
    assert total["requests"] == total["served"] == MANY
    assert total["bytes_sent"] == total["bytes_received"] > 4 * 4_590_758
    assert total["grpc_recv_tensor_calls"] == 0
    small = 2  # up to 1 KiB: they are copied into their encoding as well
    assert total["copies"] == (2 if fabric == "shm" else 1) * MANY + small
    assert {name for each in after for name in each.fabrics} == {fabric}
    if fabric == "shm":
        assert total["socket_bytes"] < 1 << 20


def test_a_step_that_stops_waiting_leaves_the_next_one_alone(
    servers: tuple[str, Pair], run: Run
) -> None:
    assert re.fullmatch("[0-9a-f]{64}", run("stops_waiting", servers[1]))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("", f"{PEERS} is not set"),
        ("/job:ps/replica:0/task:0", "which is no TASK=HOST:PORT"),
        ("/job:ps/replica:0/task:0=127.0.0.1:x", "127.0.0.1:x"),
        ("/job:other/replica:0/task:0=127.0.0.1:7000", "does not name /job:ps/replica:0/task:0"),
    ],
)
def test_a_server_without_its_own_entry_says_so(client: Task, value: str, sentence: str) -> None:
    answer = str(client.ask(("server", value)))
    assert answer.startswith("InvalidArgumentError") and sentence in answer


@pytest.mark.slow
def test_a_peer_without_an_entry_ends_the_step(tmp_path: Path, run: Run) -> None:
    """Each task knows itself alone."""
    addresses = dict(zip(JOBS, free_addresses(2 * len(JOBS))[: len(JOBS)], strict=True))
    cluster = {job: [address] for job, address in addresses.items()}
    with contextlib.ExitStack() as stack:

        def start(job: str) -> Task:
            own = peers(cluster)[PEERS].split(",")[JOBS.index(job)]
            log = tmp_path / f"{job}.log"
            task = ForkedTask(job, "farwrite_bench.cluster.server", {PEERS: own}, log)
            stack.enter_context(task)
            task.send(Seat(cluster, job, 0, RPC_OVER_FABRIC, Threads()))
            return task

        started = [start(job) for job in JOBS]
        for task in started:
            task.receive()
        answer = run("floats", Pair(started, f"grpc://{addresses['worker']}", start))
    assert f"{PEERS} does not name /job:ps/replica:0/task:0" in answer


@pytest.mark.slow  # TensorFlow tries for 30 s to tell the dead task that the step has ended
@pytest.mark.timeout(240)
@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_killed_peer_ends_the_step(tmp_path: Path, client: Task, run: Run, fabric: str) -> None:
    with pair(tmp_path, RPC_OVER_FABRIC, {"FARWRITE_FABRICS": fabric}) as started:
        run("floats", started)
        client.send(("waits", started.target))
        producer, consumer = started.servers
        while _requests(consumer) <= MANY:  # until the tensor is waited for
            pass
        producer._process.kill()
        answer = str(client.receive())
    assert re.match(USUAL_ERRORS, answer), answer


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_restarted_peer_takes_part_in_a_new_session(
    tmp_path: Path, run: Run, expected: dict[str, str], fabric: str
) -> None:
    with pair(tmp_path, RPC_OVER_FABRIC, {"FARWRITE_FABRICS": fabric}) as started:
        assert run("opens_a_session", started) == expected["floats"]
        started.restart("ps")
        answer = run("goes_on", started)
        assert answer == expected["floats"] or re.match(USUAL_ERRORS, answer), answer
        for _ in range(NEW_SESSIONS):
            answer = run("floats", started)
            if answer == expected["floats"]:
                break
            assert re.match(USUAL_ERRORS, answer), answer
        assert answer == expected["floats"]
        producer = started.look()[0]
        assert producer.counters is not None and producer.counters["served"] >= MANY


def _requests(server: Task) -> int:
    found = server.ask(Look())
    assert isinstance(found, Readings) and found.counters is not None
    return found.counters["requests"]


def test_each_transport_loads_its_own_library() -> None:
    assert plugin.programs([GRPC]) == []
    assert plugin.programs([GRPC, FARWRITE]) == [PLUGIN]
    assert plugin.programs([RPC_OVER_FABRIC]) == [MODULE]
    assert plugin.programs([FARWRITE, RPC_OVER_FABRIC, FARWRITE]) == [PLUGIN, MODULE]


def test_devices_get_addresses_that_no_server_has() -> None:
    addresses = free_addresses(4)
    cluster = {"ps": addresses[:1], "worker": addresses[1:]}
    assert GRPC.variables(cluster) == {}
    entries = dict(entry.split("=") for entry in peers(cluster)[PEERS].split(","))
    assert entries.keys() == {
        "/job:ps/replica:0/task:0",
        *(f"/job:worker/replica:0/task:{index}" for index in range(3)),
    }
    assert len({*entries.values(), *addresses}) == 8
