"""AsyncSGD: gradients add up at the box, and nothing runs far ahead."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from boxes import open_box

import farwrite as fw
from farwrite.box.training import AsyncSGD


def zeros() -> list[np.ndarray]:
    return [np.zeros((2, 3), np.float32), np.zeros(4, np.float32)]


def gradients(value: float) -> list[np.ndarray]:
    return [np.full_like(array, value) for array in zeros()]


def test_one_worker_is_plain_sgd() -> None:
    with open_box() as connect:
        mine = zeros()
        with AsyncSGD(connect(), "w", mine, 0.5) as sgd:
            for value in (1, 2, 3):
                sgd.step(gradients(value), mine)
            assert sgd.steps == 3
        for array in mine:
            np.testing.assert_allclose(array, -3)


def test_the_gradients_of_all_workers_add_up() -> None:
    workers, steps = 3, 40

    with open_box() as connect:

        def work(worker: int) -> None:
            mine = zeros()
            with AsyncSGD(
                connect(), "w", mine, 0.25, staleness=4, worker=worker, workers=workers
            ) as sgd:
                for _ in range(steps):
                    sgd.step(gradients(1), mine)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))
        np.testing.assert_array_equal(connect().attach("w").read(), -0.25 * workers * steps)


@pytest.mark.parametrize("staleness", [0, 2])
def test_no_step_returns_further_ahead_than_the_staleness(staleness: int) -> None:
    workers, steps = 3, 30
    ahead: list[int] = []

    with open_box() as connect:
        started = threading.Barrier(workers)

        def work(worker: int) -> None:
            mine, counts = zeros(), None
            with AsyncSGD(
                connect(), "w", mine, 0.1, staleness=staleness, worker=worker, workers=workers
            ) as sgd:
                counts = connect().attach("w/steps")
                started.wait(20)
                for step in range(steps):
                    if worker == 0:
                        time.sleep(0.002)  # the slowest
                    sgd.step(gradients(1), mine)
                    # The others can only have come nearer since.
                    ahead.append(step + 1 - int(counts.read().min()))

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))
    assert len(ahead) == workers * steps
    assert max(ahead) <= staleness


def test_a_worker_waits_for_one_that_does_not_come_and_goes_on_when_it_does() -> None:
    with open_box() as connect:
        mine, other = zeros(), zeros()
        with (
            AsyncSGD(connect(), "w", mine, 1, 1, worker=0, workers=2, timeout=1) as fast,
            AsyncSGD(connect(), "w", other, 1, 1, worker=1, workers=2, timeout=20) as slow,
        ):
            fast.step(gradients(1), mine)
            with pytest.raises(fw.DeadlineExceeded, match=r"workers are \[2, 0\]; start a worker"):
                fast.step(gradients(1), mine)
            slow.step(gradients(1), other)
            slow.step(gradients(1), other)
            fast.step(gradients(1), mine)
            np.testing.assert_array_equal(mine[0], -5)


def test_nobody_waits_for_a_worker_that_has_left() -> None:
    with open_box() as connect:
        mine = zeros()
        with AsyncSGD(connect(), "w", mine, 1, 0, worker=0, workers=2) as sgd:
            AsyncSGD(connect(), "w", zeros(), 1, 0, worker=1, workers=2).close()
            for _ in range(3):
                sgd.step(gradients(1), mine)
            with pytest.raises(fw.FailedPrecondition, match="worker 1 of 'w' has finished"):
                AsyncSGD(connect(), "w", zeros(), 1, 0, worker=1, workers=2)


def test_a_worker_that_was_replaced_changes_no_count() -> None:
    with open_box() as connect:
        mine, client = zeros(), connect()
        with AsyncSGD(connect(), "w", mine, 1, 0, worker=1, workers=2) as other:
            hanging = AsyncSGD(connect(), "w", zeros(), 1, 0, worker=0, workers=2)
            client.attach("w/steps.0").free()
            replacing = AsyncSGD(connect(), "w", zeros(), 1, 0, worker=0, workers=2)
            with pytest.raises(fw.FailedPrecondition, match=r"'w/steps\.0' was freed"):
                hanging.step(gradients(1), zeros())
            assert client.attach("w/steps").read().tolist() == [0, 0]
            replacing.close()
            counts = client.attach("w/steps").read().tolist()
            hanging.close()
            assert client.attach("w/steps").read().tolist() == counts
            other.step(gradients(1), mine)
            with pytest.raises(fw.FailedPrecondition, match="worker 0 of 'w' has finished"):
                AsyncSGD(connect(), "w", zeros(), 1, 0, worker=0, workers=2)


def test_workers_that_have_finished_train_on_as_the_errors_say() -> None:
    with open_box() as connect:
        mine = zeros()
        with AsyncSGD(connect(), "w", mine, 1) as sgd:
            sgd.step(gradients(1), mine)
        with pytest.raises(fw.AlreadyExists, match=r"takeover=True.* free 'w/steps' first"):
            AsyncSGD(connect(), "w", mine, 1)
        with pytest.raises(fw.FailedPrecondition, match=r"attach\('w/steps'\)\.free\(\)\)"):
            AsyncSGD(connect(), "w", mine, 1, takeover=True)
        connect().attach("w/steps").free()
        again = zeros()
        with AsyncSGD(connect(), "w", again, 1, takeover=True) as sgd:
            assert sgd.steps == 0
            np.testing.assert_array_equal(again[0], -1)
            sgd.step(gradients(1), again)
            np.testing.assert_array_equal(again[0], -2)


def test_a_worker_that_the_box_does_not_count_out_says_so_and_is_closed() -> None:
    with fw.box.serve(memory="8M", pool="2M") as server:
        sgd = AsyncSGD(server.connect(), "w", zeros(), 1)
    with pytest.raises(fw.Error):
        sgd.close()
    sgd.close()


def test_a_worker_that_starts_again_keeps_its_count() -> None:
    with open_box() as connect:
        mine, again, client = zeros(), zeros(), connect()
        with AsyncSGD(connect(), "w", zeros(), 1, worker=1, workers=2):
            died = AsyncSGD(client, "w", mine, 1, worker=0, workers=2)
            died.step(gradients(1), mine)
            client.close()
            with AsyncSGD(connect(), "w", again, 1, worker=0, workers=2) as sgd:
                assert sgd.steps == 1
                np.testing.assert_array_equal(again[0], mine[0])


@pytest.mark.parametrize(
    "options",
    [
        {"learning_rate": 0},
        {"learning_rate": 1, "staleness": -1},
        {"learning_rate": 1, "worker": 1},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with open_box() as connect, pytest.raises(fw.InvalidArgument, match="out of range"):
        AsyncSGD(connect(), "w", zeros(), **options)  # type: ignore[arg-type]


def test_a_step_during_which_a_handler_closes_the_worker_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = zeros()
    with open_box() as connect, AsyncSGD(connect(), "w", mine, 0.5) as sgd:
        monkeypatch.setattr(sgd._pending, "begin", lambda _: sgd.close())
        with pytest.raises(fw.FailedPrecondition, match="closed the object during the call"):
            sgd.step(gradients(1), mine)
