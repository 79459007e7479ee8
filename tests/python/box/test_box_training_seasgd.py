"""SEASGD: its formula, how workers start and end, and the errors of a change on its way."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from boxes import open_box

import farwrite as fw
from farwrite.box.training import SEASGD
from farwrite.box.training.pending import Pending
from processes import stop

RATE = 0.2


def numbers(seed: int) -> list[np.ndarray]:
    """Three arrays, one of them without dimensions."""
    source = np.random.default_rng(seed)
    return [source.standard_normal(shape).astype(np.float32) for shape in [(3, 4), (5,), ()]]


def copies(arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [array.copy() for array in arrays]


class Reference:
    """The formula, with plain NumPy and one worker at a time."""

    def __init__(self, shared: list[np.ndarray]) -> None:
        self.shared = copies(shared)

    def step(self, mine: list[np.ndarray]) -> None:
        for x, g in zip(mine, self.shared, strict=True):
            delta = np.float32(RATE) * (x - g)
            x -= delta
            g += delta


def assert_equal(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    for one, other in zip(left, right, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_one_worker_follows_the_formula() -> None:
    mine, reference = numbers(0), Reference(numbers(0))
    expected = copies(mine)
    with open_box() as connect, SEASGD(connect(), "w", mine, RATE) as sgd:
        for step in range(1, 5):
            for x, y, gradient in zip(mine, expected, numbers(step), strict=True):
                x -= 0.1 * gradient
                y -= 0.1 * gradient
            sgd.step(mine)
            reference.step(expected)
            assert_equal(mine, expected)
        shared = numbers(9)
        sgd.read(shared)
        assert_equal(shared, reference.shared)


def test_two_workers_in_turn_follow_the_formula() -> None:
    with open_box() as connect:
        first, second = numbers(0), numbers(1)
        reference = Reference(first)
        with (
            SEASGD(connect(), "w", first, RATE) as one,
            SEASGD(connect(), "w", second, RATE) as other,
        ):
            expected = [copies(first), copies(first)]
            for step in range(2, 8):
                mine, sgd = [(first, one), (second, other)][step % 2]
                for x, y, gradient in zip(mine, expected[step % 2], numbers(step), strict=True):
                    x -= 0.1 * gradient
                    y -= 0.1 * gradient
                sgd.step(mine)
                sgd.flush()
                reference.step(expected[step % 2])
            assert_equal(first, expected[0])
            assert_equal(second, expected[1])


def test_a_later_worker_starts_from_the_first_ones_weights() -> None:
    with open_box() as connect:
        first, second = numbers(0), numbers(1)
        with SEASGD(connect(), "w", first), SEASGD(connect(), "w", second):
            assert_equal(second, first)


def test_the_shared_weights_outlive_the_workers() -> None:
    with open_box() as connect:
        with SEASGD(connect(), "w", numbers(0)):
            pass
        later = numbers(1)
        with SEASGD(connect(), "w", later, takeover=True):
            assert_equal(later, numbers(0))


def test_workers_that_start_at_once_agree_on_one_start() -> None:
    with open_box() as connect:
        barrier = threading.Barrier(4)

        def start(seed: int) -> list[np.ndarray]:
            mine, client = numbers(seed), connect()
            barrier.wait(20)
            with SEASGD(client, "w", mine):
                barrier.wait(20)  # or one could come after the last has left
                return mine

        with ThreadPoolExecutor(4) as pool:
            starts = list(pool.map(start, range(4)))
        for other in starts[1:]:
            assert_equal(other, starts[0])


def test_a_step_returns_before_the_box_has_added_its_delta() -> None:
    command = [sys.executable, "-m", "farwrite", "box", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            mine = numbers(0)
            with (
                fw.box.connect(server.stdout.readline().strip()) as client,
                SEASGD(client, "w", mine) as sgd,
            ):
                segment = client.attach("w")
                sgd.step(mine)
                sgd.flush()
                stop(server.pid)
                sgd.step(mine)
                assert segment.version == 2
                server.send_signal(signal.SIGCONT)
                sgd.flush()
                assert segment.version == 3
        finally:
            server.kill()


def test_an_interrupted_step_keeps_its_delta_from_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    command = [sys.executable, "-m", "farwrite", "box", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            mine = [np.zeros(1 << 18, np.float32)]  # more than a message holds
            with (
                fw.box.connect(server.stdout.readline().strip()) as client,
                SEASGD(client, "w", mine, 1.0) as sgd,
            ):
                sgd.step(mine)
                sgd.flush()
                stop(server.pid)
                mine[0][:] = 1
                with monkeypatch.context() as patched, pytest.raises(Interrupted):
                    patched.setattr(Pending, "begin", interrupt)  # posted, and not kept
                    sgd.step(mine)
                mine[0][:] = 5
                sgd.step(mine)
                server.send_signal(signal.SIGCONT)
                sgd.flush()
                assert np.unique(client.attach("w").read()).tolist() == [6]
        finally:
            server.kill()


def test_a_period_exchanges_in_each_such_step() -> None:
    with open_box() as connect:
        mine = numbers(0)
        with SEASGD(connect(), "w", mine, period=3) as sgd:
            segment = connect().attach("w")
            versions = []
            for _ in range(6):
                sgd.step(mine)
                sgd.flush()
                versions.append(segment.version)
            assert versions == [1, 1, 2, 2, 2, 3]


def test_arrays_with_strides_are_changed_where_they_are() -> None:
    with open_box() as connect:
        whole = np.zeros((4, 4), np.float32)
        with SEASGD(connect(), "w", [whole[:, ::2]], moving_rate=0.5) as sgd:
            whole[:] = 8
            sgd.step([whole[:, ::2]])
            assert whole.tolist() == [[4, 8, 4, 8]] * 4


class Refusing:
    """A client whose next posted changes fail, as if the box refused them."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.errors: list[Exception] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def create(self, *arguments: Any, **options: Any) -> Any:
        return RefusingSegment(self.client.create(*arguments, **options), self.errors)


class RefusingSegment:
    def __init__(self, segment: Any, errors: list[Exception]) -> None:
        self.segment = segment
        self.errors = errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self.segment, name)

    @property
    def post(self) -> Any:
        return self if self.errors else self.segment.post

    def accumulate(self, delta: object) -> Refused:
        return Refused(self.errors.pop())


class Refused:
    """An update that has failed."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def done(self) -> bool:
        return True

    def wait(self, timeout: float | None = None) -> int:
        raise self.error


def test_the_error_of_a_refused_delta_is_raised_by_the_next_call_once() -> None:
    with open_box() as connect:
        client, mine = Refusing(connect()), numbers(0)
        sgd = SEASGD(client, "w", mine)  # type: ignore[arg-type]
        client.errors.append(fw.ResourceExhausted("accumulate: no memory"))
        sgd.step(mine)
        before = copies(mine)
        with pytest.raises(fw.ResourceExhausted):
            sgd.step(mine)
        assert_equal(mine, before)
        sgd.step(mine)

        client.errors.append(fw.ResourceExhausted("accumulate: no memory"))
        sgd.step(mine)
        with pytest.raises(fw.ResourceExhausted):
            sgd.close()
        sgd.close()


class Late(Refused):
    """An update that is on its way until `arrived` is set."""

    arrived = False

    def __init__(self) -> None:
        super().__init__(fw.DeadlineExceeded("wait: the timeout passed"))

    def done(self) -> bool:
        return self.arrived

    def wait(self, timeout: float | None = None) -> int:
        if self.arrived:
            return 1
        raise self.error


def test_a_delta_on_its_way_keeps_its_memory_after_a_timeout() -> None:
    pending, update = Pending(), Late()
    pending.begin(update)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(fw.DeadlineExceeded):
            pending.finish(0.1)
    update.arrived = True
    pending.finish(0.1)


def test_a_closed_object_says_so() -> None:
    with open_box() as connect:
        mine = numbers(0)
        sgd = SEASGD(connect(), "w", mine)
        sgd.close()
        with pytest.raises(fw.FailedPrecondition, match="closed"):
            sgd.step(mine)
        sgd = SEASGD(connect(), "other", mine, period=2)
        sgd.close()
        with pytest.raises(fw.FailedPrecondition, match="closed"):
            sgd.step()  # would not exchange


def read_only() -> list[np.ndarray]:
    arrays = numbers(0)
    arrays[1].flags.writeable = False
    return arrays


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (lambda: numbers(0)[:2], "there are 2 arrays instead of 3"),
        (lambda: [*numbers(0)[:2], np.zeros(1, np.float32)], r"array 2 has shape \(1,\) instead"),
        (lambda: [*numbers(0)[:2], np.zeros((), np.int64)], "array 2 is int64 instead of float32"),
        (lambda: [*numbers(0)[:2], np.zeros(())], "array 2 is float64 instead of float32"),
        (lambda: dict(zip("012", numbers(0)[::-1], strict=True)), r"'0' has shape \(\) instead"),
        (lambda: dict(zip("abc", numbers(0), strict=True)), "'a' is where the constructor had '0'"),
        (lambda: [*numbers(0)[:2], 1.0], "array 2 is float"),
        (read_only, "array 1 is read-only"),
    ],
)
def test_arrays_unlike_those_of_the_constructor_are_refused(
    arrays: Callable[[], list[np.ndarray]], message: str
) -> None:
    with open_box() as connect:
        sgd = SEASGD(connect(), "w", numbers(0))
        with pytest.raises(fw.InvalidArgument, match=message):
            sgd.step(arrays())
        sgd.close()


@pytest.mark.parametrize("options", [{"moving_rate": 0}, {"moving_rate": 1.5}, {"period": 0}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with open_box() as connect, pytest.raises(fw.InvalidArgument, match="out of range"):
        SEASGD(connect(), "w", numbers(0), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", ["0.5", True, np.array([0.5]), np.nan, 1j])
def test_a_rate_that_is_no_number_is_called_that(rate: Any) -> None:
    with open_box() as connect, pytest.raises(fw.InvalidArgument, match="is not a number"):
        SEASGD(connect(), "w", numbers(0), moving_rate=rate)


def test_a_model_without_elements_is_refused() -> None:
    with open_box() as connect:
        for empty in ([], [np.zeros((0, 3))]):
            with pytest.raises(fw.InvalidArgument, match="no element"):
                SEASGD(connect(), "w", empty)


def test_arrays_that_come_only_once_are_refused() -> None:
    with open_box() as connect:
        for once in ((array for array in numbers(0)), 5, np.ones(3, "f4"), np.ones((2, 3))):
            with pytest.raises(fw.InvalidArgument, match="give a list or a dict of arrays"):
                SEASGD(connect(), "w", once)  # type: ignore[arg-type]
        with SEASGD(connect(), "w", numbers(0)) as sgd:
            for call in (sgd.step, sgd.read):
                with pytest.raises(fw.InvalidArgument, match="give a list or a dict of arrays"):
                    call(array for array in numbers(0))  # type: ignore[arg-type]


def test_three_workers_find_the_least_squares_solution() -> None:
    source = np.random.default_rng(0)
    solution = source.standard_normal(8).astype(np.float32)
    rows = source.standard_normal((3, 64, 8)).astype(np.float32)

    with open_box() as connect:
        # A worker that starts when all others have ended would be refused.
        all_started = threading.Barrier(3)

        def work(worker: int) -> None:
            mine = [np.zeros(8, np.float32)]
            with SEASGD(connect(), "w", mine) as sgd:
                all_started.wait(60)
                for _ in range(200):
                    errors = rows[worker] @ (mine[0] - solution)
                    mine[0] -= 0.1 * rows[worker].T @ errors / len(errors)
                    sgd.step(mine)

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
        shared = connect().attach("w").read()
    np.testing.assert_allclose(shared, solution, atol=1e-2)
