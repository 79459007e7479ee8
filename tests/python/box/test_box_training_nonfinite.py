"""NaN and infinity in one worker's step do not get into the shared weights."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from boxes import open_box

import farwrite as fw
from farwrite.box.training import SEASGD, AsyncSGD, BoxGroup, HybridSEASGD

BAD = [np.nan, np.inf, -np.inf]


def full(value: float) -> list[np.ndarray[Any, Any]]:
    return [np.full(3, value, np.float32), np.full((2, 2), value, np.float16)]


@pytest.mark.parametrize("bad", BAD)
def test_an_elastic_step_is_refused_and_can_be_made_again(bad: float) -> None:
    with open_box() as connect, SEASGD(connect(), "w", full(0), 0.5) as sgd:
        mine = full(8)
        mine[1][0, 1] = bad
        with pytest.raises(fw.InvalidArgument, match="NaN or infinity"):
            sgd.step(mine)
        assert mine[0].tolist() == [8, 8, 8]
        mine[1][0, 1] = 8
        sgd.step(mine)
        sgd.flush()
        assert connect().attach("w").read().tolist() == [4] * 7


@pytest.mark.parametrize("choice", ["refuse", "skip"])
@pytest.mark.parametrize(
    ("helper", "of_worker"),
    [(SEASGD, [{}, {}]), (AsyncSGD, [{"worker": n, "workers": 2} for n in (0, 1)])],
)
def test_nobody_starts_from_weights_that_are_not_finite(
    helper: Any, of_worker: list[dict[str, int]], choice: str
) -> None:
    with open_box() as connect:
        client = connect()
        with pytest.raises(fw.InvalidArgument, match="first weights of 'w' have NaN or infinity"):
            helper(client, "w", full(np.nan), 0.5, nonfinite=choice, **of_worker[0])
        with helper(client, "w", full(1), 0.5, nonfinite=choice, **of_worker[0]):
            client.attach("w").fill(np.inf)
            mine = full(3)
            with pytest.raises(fw.FailedPrecondition, match="shared weights of 'w' have NaN"):
                helper(connect(), "w", mine, 0.5, nonfinite=choice, **of_worker[1])
            assert mine[0].tolist() == [3, 3, 3]


def test_an_elastic_step_is_skipped_by_choice() -> None:
    with open_box() as connect, SEASGD(connect(), "w", full(2), 0.5, nonfinite="skip") as sgd:
        mine = full(np.nan)
        sgd.step(mine)
        assert [array.ravel().tolist() for array in mine] == [[2] * 3, [2] * 4]
        mine[0][:] = 4
        sgd.step(mine)
        sgd.flush()
        assert connect().attach("w").read().tolist() == [3] * 3 + [2] * 4


def test_weights_that_are_large_and_finite_are_exchanged() -> None:
    with open_box() as connect:
        mine = [np.full(4, 3e38, np.float32)]  # their sum is infinite
        with SEASGD(connect(), "w", mine, 0.5) as sgd:
            sgd.step(mine)
            assert mine[0].tolist() == [np.float32(3e38)] * 4


def test_shared_weights_that_are_not_finite_are_not_blamed_on_the_worker() -> None:
    with open_box() as connect, SEASGD(connect(), "w", full(0), nonfinite="skip") as sgd:
        connect().attach("w").fill(np.nan)
        with pytest.raises(fw.FailedPrecondition, match="shared weights of 'w' have NaN"):
            sgd.step(full(0))


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("choice", ["refuse", "skip"])
def test_gradients_are_refused_or_left_out(choice: str, bad: float) -> None:
    with (
        open_box() as connect,
        AsyncSGD(connect(), "w", full(1), 1, nonfinite=choice) as sgd,  # type: ignore[arg-type]
    ):
        mine = full(0)
        if choice == "skip":
            sgd.step(full(bad), mine)
        else:
            with pytest.raises(fw.InvalidArgument, match="gradients have NaN or infinity"):
                sgd.step(full(bad), mine)
        assert sgd.steps == (choice == "skip")
        sgd.step(full(0.5), mine)
        assert mine[0].tolist() == [0.5] * 3


@pytest.mark.parametrize("choice", ["refuse", "skip"])
def test_a_group_is_told_in_every_member_or_goes_on_from_the_shared_weights(choice: str) -> None:
    found: list[Any] = [None, None]

    def work(rank: int, client: fw.box.Client) -> None:
        mine = full(2)
        with BoxGroup(client, "g", mine, rank, 2, timeout=20) as group:
            sgd = HybridSEASGD(
                client, "w", mine, all_reduce=group.all_reduce, broadcast=group.broadcast,
                root=rank == 0, period=100, nonfinite=choice,
            )  # type: ignore[arg-type]  # fmt: skip
            with sgd:
                mine[0][:] = np.nan if rank == 1 else 5
                try:
                    sgd.step(mine)
                    found[rank] = mine[0].tolist()
                except fw.Error as error:
                    found[rank] = type(error)

    with open_box() as connect:
        threads = [threading.Thread(target=work, args=(rank, connect())) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [[2, 2, 2] if choice == "skip" else fw.InvalidArgument] * 2


@pytest.mark.parametrize("kind", ["SEASGD", "AsyncSGD", "HybridSEASGD"])
def test_another_choice_is_refused(kind: str) -> None:
    with open_box() as connect, pytest.raises(fw.InvalidArgument, match="give 'refuse' or 'skip'"):
        if kind == "SEASGD":
            SEASGD(connect(), "w", full(0), nonfinite="ignore")  # type: ignore[arg-type]
        elif kind == "AsyncSGD":
            AsyncSGD(connect(), "w", full(0), 1, nonfinite="ignore")  # type: ignore[arg-type]
        else:
            HybridSEASGD(
                connect(), "w", full(0), all_reduce=id, broadcast=id, root=True,
                nonfinite="ignore",
            )  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "rate", [0, -1, 1e39, 1e-50, np.nan, np.inf, "0.1", None, pytest.param(10**400, id="huge")]
)
def test_a_factor_that_the_dtype_cannot_hold_is_refused(rate: Any, dtype: str) -> None:
    weights = [np.zeros(3, dtype)]
    with open_box() as connect:
        holds = dtype == "float64" and rate in (1e39, 1e-50)
        if holds:
            AsyncSGD(connect(), "w", weights, rate).close()
        else:
            with pytest.raises(fw.InvalidArgument, match="learning_rate"):
                AsyncSGD(connect(), "w", weights, rate)
        if holds and rate < 1:
            SEASGD(connect(), "v", weights, rate).close()
        else:
            with pytest.raises(fw.InvalidArgument, match="moving_rate"):
                SEASGD(connect(), "v", weights, rate)
