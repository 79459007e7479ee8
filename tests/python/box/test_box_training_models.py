"""The training classes accept one model only, hold its weights exactly, and touch nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from boxes import open_box

import farwrite as fw
from farwrite.box.training import SEASGD, AsyncSGD, HybridSEASGD, read_weights

Model = list[np.ndarray] | dict[str, np.ndarray]


def nothing(arrays: object) -> None:
    """Stands for a collective in a group of one."""


def seasgd(client: fw.box.Client, arrays: Model) -> SEASGD:
    return SEASGD(client, "w", arrays)


def async_sgd(client: fw.box.Client, arrays: Model) -> AsyncSGD:
    number = len([info for info in client.list() if info.name.startswith("w/steps.")])
    return AsyncSGD(client, "w", arrays, 1, worker=number, workers=3)


def hybrid(client: fw.box.Client, arrays: Model) -> HybridSEASGD:
    return HybridSEASGD(client, "w", arrays, all_reduce=nothing, broadcast=nothing, root=True)


def reader(client: fw.box.Client, arrays: Model) -> None:
    read_weights(client, "w", arrays, 5)


def zeros(*shapes: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray]:
    return [np.zeros(shape, dtype) for shape in shapes]


def named(*names: str) -> dict[str, np.ndarray]:
    return dict(zip(names, zeros((2, 3), (3,)), strict=True))


@pytest.mark.parametrize(
    ("later", "opened"),
    [(seasgd, seasgd), (async_sgd, async_sgd), (hybrid, seasgd), (reader, seasgd)],
)
@pytest.mark.parametrize(
    ("first", "other", "message"),
    [
        (
            zeros((2, 3), (3,)),
            zeros((3,), (2, 3)),
            r"tensor '0' has shape \(3,\) and dtype float32, and in .* it has \(2, 3\) and float32",
        ),
        (zeros((2, 3)), zeros((6,)), r"tensor '0' has shape \(6,\)"),
        (zeros((2, 3)), zeros((2, 3), dtype=np.float64), "tensor '0' .* dtype float64"),
        (
            zeros((2,), (2,), dtype=np.float16),
            [*zeros((2,), dtype=np.float16), *zeros((2,))],
            "tensor '1' .* dtype float32, and in .* float16",
        ),
        (zeros((2, 3), (3,)), zeros((2, 3)), "lacks the tensor '1' of"),
        (zeros((2, 3)), zeros((2, 3), (3,)), "model lacks the tensor '1'"),
        (named("w", "b"), named("w", "c"), "tensor 'c' is where .* model has 'b'"),
        (named("w", "b"), zeros((2, 3), (3,)), "tensor '0' is where .* model has 'w'"),
    ],
)
def test_another_model_is_refused_by_the_name_of_the_tensor(
    later: Callable[..., Any], opened: Callable[..., Any], first: Model, other: Model, message: str
) -> None:
    with open_box() as connect, opened(connect(), first):
        with pytest.raises(fw.InvalidArgument, match=message):
            later(connect(), other)
        later(connect(), first)


@pytest.mark.parametrize("later", [seasgd, async_sgd, hybrid, reader])
def test_a_segment_of_something_else_is_refused(later: Callable[..., Any]) -> None:
    with open_box() as connect:
        connect().create("w", (9,), np.float32)
        with pytest.raises(fw.InvalidArgument, match="'w' holds no weights of a training"):
            later(connect(), zeros((2, 3), (3,)))


@pytest.mark.parametrize("later", [seasgd, async_sgd, hybrid, reader])
@pytest.mark.parametrize("dtype", [np.complex64, np.int64, np.longdouble, np.bool_])
def test_what_the_box_cannot_hold_is_refused_before_the_first_step(
    later: Callable[..., Any], dtype: Any
) -> None:
    with open_box() as connect:
        name = np.dtype(dtype).name
        with pytest.raises(fw.InvalidArgument, match=f"array 1 is {name}; give"):
            later(connect(), [*zeros((2, 3)), *zeros((3,), dtype=dtype)])
        assert connect().list() == []


PRECISE = [1 / 3, 1e300, -(2.0**53) + 1, 5e-324]


def test_double_precision_is_shared_in_double_precision() -> None:
    with open_box() as connect:
        mine, other, read = ([np.array(PRECISE)], [np.zeros(4)], [np.zeros(4)])
        with SEASGD(connect(), "w", mine, 1.0) as sgd, SEASGD(connect(), "w", other):
            assert other[0].tolist() == PRECISE
            mine[0] *= 2
            sgd.step(mine)  # the shared weights move all the way
            sgd.flush()
            read_weights(connect(), "w", read)
            assert read[0].tolist() == [2 * value for value in PRECISE]
        assert connect().attach("w").dtype == np.float64


def test_gradients_of_double_precision_are_added_in_double_precision() -> None:
    with open_box() as connect:
        mine = [np.array([1.0])]
        with AsyncSGD(connect(), "w", mine, 1.0) as sgd:
            sgd.step([np.array([-(2.0**-40)])], mine)
        assert mine[0].tolist() == [1 + 2.0**-40]


def test_the_segment_holds_each_precision_of_a_mixed_model_exactly() -> None:
    with open_box() as connect:
        mine = [np.full(2, 1, np.float16), np.full((2, 2), 1 / 3), np.full(1, 0.1, np.float32)]
        read = [np.zeros_like(array) for array in mine]
        with SEASGD(connect(), "w", mine, moving_rate=0.5) as sgd:
            read_weights(connect(), "w", read)
            for array, got in zip(mine, read, strict=True):
                np.testing.assert_array_equal(array, got)
                array[...] = 3
            mine[1][...] = 1 / 3
            sgd.step(mine)
            assert [array.dtype for array in mine] == [np.float16, np.float64, np.float32]
            assert mine[0].tolist() == [2, 2] and mine[1].tolist() == [[1 / 3] * 2] * 2


def test_half_precision_trains_over_single_precision() -> None:
    with open_box() as connect, SEASGD(connect(), "w", zeros((2,), dtype=np.float16)):
        assert connect().attach("w").dtype == np.float32


def test_nothing_is_touched_between_exchanges() -> None:
    with open_box() as connect:
        mine = [np.array(PRECISE)]
        with SEASGD(connect(), "w", mine, 0.5, period=3) as sgd:
            due = []
            for step in range(6):
                mine[0][:] = PRECISE
                mine[0][0] = step
                before = mine[0].copy()
                due.append(sgd.due)
                sgd.step(mine)
                assert (mine[0] != before).any() == due[-1]
            assert due == [False, False, True] * 2
            sgd.step()
            sgd.step()
            with pytest.raises(fw.InvalidArgument, match="there are 0 arrays instead of 1"):
                sgd.step()
