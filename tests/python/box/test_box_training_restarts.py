"""What a training finds after a restart: the table of docs/explanation/parameter-box.md."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from box_process import BoxProcess
from boxes import open_box

import farwrite as fw
from farwrite.box.training import SEASGD, AsyncSGD, HybridSEASGD, Termination


def one(value: float = 0) -> list[np.ndarray]:
    return [np.full(2, value, np.float32)]


class Elastic:
    """A worker of SEASGD. `found` is what it starts from."""

    def __init__(self, client: fw.box.Client, worker: int, value: float, **options: Any) -> None:
        self.mine = one(value)
        self.training: Any = self.open(client, worker, options)

    def open(self, client: fw.box.Client, worker: int, options: dict[str, Any]) -> Any:
        return SEASGD(client, "w", self.mine, 1.0, **options)

    @property
    def found(self) -> float:
        return float(self.mine[0][0])

    def step(self) -> None:
        """Add 1 to what the box has."""
        self.mine[0] += 1
        self.training.step(self.mine)
        self.training.flush()


class Hybrid(Elastic):
    """A group of one of HybridSEASGD."""

    def open(self, client: fw.box.Client, worker: int, options: dict[str, Any]) -> Any:
        return HybridSEASGD(
            client, "w", self.mine, all_reduce=id, broadcast=id, root=True, moving_rate=1.0,
            **options,
        )  # fmt: skip


class Asynchronous(Elastic):
    """A worker of AsyncSGD, one of two."""

    def open(self, client: fw.box.Client, worker: int, options: dict[str, Any]) -> Any:
        return AsyncSGD(client, "w", self.mine, 1.0, 100, worker=worker, workers=2, **options)

    def step(self) -> None:
        self.training.step(one(-1), self.mine)


class Counting:
    """A worker of Termination, one of two. `found` is what all have counted."""

    def __init__(self, client: fw.box.Client, worker: int, value: float, **options: Any) -> None:
        self.worker = worker
        self.training = Termination(client, "w", 2, 100, **options)
        self.training.advance(worker)
        self.found = value if self.training.counts().sum() == 1 else self.training.counts().sum()

    def step(self) -> None:
        self.training.advance(self.worker)


Kind = Callable[..., Any]
KINDS = [Elastic, Hybrid, Asynchronous, Counting]
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_one_worker_that_starts_again_goes_on_with_the_others(kind: Kind) -> None:
    with open_box() as connect:
        client = connect()
        living = kind(connect(), 0, 5)
        dead = kind(client, 1, 5)
        dead.step()
        client.close()  # as its end does
        again = kind(connect(), 1, 5)
        assert again.found != 5
        again.step()
        living.step()
        living.training.close()
        again.training.close()


@each_kind
def test_all_that_start_again_are_refused_or_take_over(kind: Kind) -> None:
    with open_box() as connect:
        client = connect()
        dead = kind(client, 0, 5)
        dead.step()
        client.close()
        for _ in range(2):
            with pytest.raises(fw.AlreadyExists, match=r"all ended; give takeover=True.*, free"):
                kind(connect(), 0, 7)
        again = kind(connect(), 0, 7, takeover=True)
        assert again.found not in (5, 7)
        joined = kind(connect(), 1, 7)  # without: it joins one that lives
        assert joined.found != 7
        again.training.close()
        joined.training.close()


@each_kind
def test_takeover_of_nothing_starts_anew(kind: Kind) -> None:
    with open_box() as connect:
        first = kind(connect(), 0, 5, takeover=True)
        assert first.found == 5
        first.training.close()


@each_kind
def test_a_server_without_the_segments_starts_anew(kind: Kind) -> None:
    with fw.box.serve(memory="8M", pool="2M") as server:
        old = kind(server.connect(), 0, 5)
        old.step()
    with pytest.raises(fw.Error):
        old.step()
    with fw.box.serve(memory="8M", pool="2M") as server, server.connect() as client:
        again = kind(client, 0, 7)
        assert again.found == 7
        again.training.close()


@each_kind
def test_a_restored_server_refuses_or_goes_on_from_its_snapshot(kind: Kind, tmp_path: Path) -> None:
    with (
        fw.box.serve(memory="8M", pool="2M", snapshot=tmp_path) as server,
        server.connect() as client,
    ):
        old = kind(client, 0, 5)
        old.step()
        server.snapshot()
        at_snapshot = float(np.asarray(client.attach("w").read()).sum())
        old.step()
    with (
        fw.box.serve(memory="8M", pool="2M", snapshot=tmp_path, restore=True) as server,
        server.connect() as client,
    ):
        with pytest.raises(fw.AlreadyExists, match="takeover=True"):
            kind(client, 0, 7)
        assert float(np.asarray(client.attach("w").read()).sum()) == at_snapshot
        again = kind(client, 0, 7, takeover=True)
        assert again.found not in (5, 7)
        again.training.close()


@pytest.mark.parametrize("kind", [Asynchronous, Counting])
def test_a_second_process_of_a_worker_is_refused(kind: Kind) -> None:
    with open_box() as connect:
        first = kind(connect(), 0, 5)
        with pytest.raises(fw.AlreadyExists, match=r"a living process is worker 0 of 'w.*another"):
            kind(connect(), 0, 7)
        first.step()
        first.training.close()


def test_workers_that_disagree_about_their_number_are_refused() -> None:
    with open_box() as connect:
        with (
            AsyncSGD(connect(), "w", one(), 1.0, workers=2),
            pytest.raises(fw.InvalidArgument, match=r"2 workers, and .* told of 3; give every"),
        ):
            AsyncSGD(connect(), "w", one(), 1.0, worker=1, workers=3)
        with (
            Termination(connect(), "t", 2, 5),
            pytest.raises(fw.InvalidArgument, match=r"2 workers, and .* told of 3; give every"),
        ):
            Termination(connect(), "t", 3, 5)


def test_two_elastic_trainings_of_one_name_and_model_are_one() -> None:
    with open_box() as connect:
        mine, other = one(3), one(4)
        with SEASGD(connect(), "w", mine), SEASGD(connect(), "w", other):
            assert other[0].tolist() == [3, 3]


@each_kind
def test_workers_that_start_again_at_once_are_all_refused(kind: Kind) -> None:
    with open_box() as connect:
        client = connect()
        kind(client, 0, 5).step()
        client.close()
        barrier = threading.Barrier(2)

        def start(worker: int) -> type[BaseException] | None:
            mine = connect()
            barrier.wait(20)
            try:
                kind(mine, worker, 7)
            except fw.Error as error:
                return type(error)
            return None

        for _ in range(10):
            with ThreadPoolExecutor(2) as pool:
                assert list(pool.map(start, range(2))) == [fw.AlreadyExists] * 2


DIES_EARLY = """
mark = box.create_bytes("w.workers", 0, buffers=2, temporary=True)
box.create("w", (2,), description=sys.stdin.readline().strip())
print("created")
sys.stdin.readline()
"""


def test_a_first_worker_that_died_before_it_had_prepared_is_replaced() -> None:
    with open_box() as connect:
        with SEASGD(connect(), "v", one()) as other:
            model = connect().attach("v").description.decode()
            other.flush()
        with BoxProcess(connect().server.endpoint, DIES_EARLY) as first:
            first.tell(model)
            assert first.line() == "created"
            for _ in range(2):
                with pytest.raises(
                    fw.DeadlineExceeded, match=r"started first did not .* start this"
                ):
                    SEASGD(connect(), "w", one(7), timeout=0.2)
            first.kill()
        mine = one(7)
        with SEASGD(connect(), "w", mine):
            assert connect().attach("w").read().tolist() == mine[0].tolist() == [7, 7]


STOPS = """
from farwrite.box import training
from farwrite.box.training import claims
begin = claims.Workers.{call}
def stop(*given):
    claims.Workers.{call} = begin
    print("stopped")
    sys.stdin.readline()
    return begin(*given)
claims.Workers.{call} = stop
mine = [np.full(2, 7, np.float32)]
first = training.{start}
print("began")
sys.stdin.readline()
"""


@pytest.mark.parametrize("call", ["open", "begin"])
@pytest.mark.parametrize(
    ("kind", "start"),
    [
        (Elastic, 'SEASGD(box, "w", mine)'),
        (Asynchronous, 'AsyncSGD(box, "w", mine, 1.0, 100, workers=2)'),
        (Counting, 'Termination(box, "w", 2, 100)'),
    ],
)
def test_a_first_worker_that_was_stopped_stays_the_first(kind: Kind, start: str, call: str) -> None:
    with open_box() as connect:
        program = STOPS.format(start=start, call=call)
        with BoxProcess(connect().server.endpoint, program) as first:
            assert first.line() == "stopped"
            for _ in range(2):
                with pytest.raises(
                    fw.DeadlineExceeded, match=r"did not prepare.*'w\.workers' goes"
                ):
                    kind(connect(), 1, 5, timeout=0.2)
            first.tell()
            assert first.line() == "began"
            joined = kind(connect(), 1, 5)
            if kind is not Counting:
                assert joined.found == 7
            joined.training.close()


TRAINS = """
from farwrite.box.training import AsyncSGD
mine = [np.zeros(2, np.float32)]
training = AsyncSGD(box, "w", mine, 1.0, 100, worker=1, workers=2)
training.step([np.full(2, -1, np.float32)], mine)
print(training.steps)
sys.stdin.readline()
"""


def test_a_killed_worker_can_start_again_at_once() -> None:
    with open_box() as connect:
        living = Asynchronous(connect(), 0, 0)
        for start in range(1, 4):
            with BoxProcess(connect().server.endpoint, TRAINS) as worker:
                assert worker.line() == str(start)
                worker.kill()
        living.training.close()


def test_freed_weights_start_a_new_training_with_new_counts() -> None:
    with open_box() as connect:
        client = connect()
        Asynchronous(client, 0, 5).step()
        client.close()
        connect().attach("w").free()
        with AsyncSGD(connect(), "w", one(7), 1.0, workers=2) as training:
            assert training.steps == 0
        assert connect().attach("w").read().tolist() == [7, 7]


def test_a_step_that_failed_is_not_counted() -> None:
    with open_box() as connect:
        client, mine = connect(), one(1)
        sgd = SEASGD(client, "w", mine, period=2)
        sgd.step(mine)
        connect().attach("w").free()
        for _ in range(2):
            with pytest.raises(fw.NotFound):
                sgd.step(mine)
            assert sgd.due
        assert mine[0].tolist() == [1, 1]


@pytest.mark.parametrize("failing", ["all_reduce", "broadcast"])
def test_a_hybrid_step_that_failed_ends_the_object(failing: str) -> None:
    class Interrupted(BaseException):
        pass

    calls: list[str] = []

    def fail(name: str) -> None:
        calls.append(name)
        if name == failing and len(calls) > 1:
            raise Interrupted

    with open_box() as connect:
        mine = one(1)
        sgd = HybridSEASGD(
            connect(), "w", mine, root=True,
            all_reduce=lambda _: fail("all_reduce"), broadcast=lambda _: fail("broadcast"),
        )  # fmt: skip
        with pytest.raises(Interrupted):
            sgd.step(mine)
        made = list(calls)
        with pytest.raises(fw.FailedPrecondition, match=r"Interrupted.*start all members"):
            sgd.step(mine)
        assert calls == made
        sgd.close()
