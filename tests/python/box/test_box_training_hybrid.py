"""BoxGroup and HybridSEASGD: averages in a group, elastic averaging between groups."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from boxes import open_box

import farwrite as fw
from farwrite.box.training import BoxGroup, HybridSEASGD, Termination

SIZE = 3


def together(work: Callable[[int], Any], members: int = SIZE) -> list[Any]:
    with ThreadPoolExecutor(members) as pool:
        return list(pool.map(work, range(members)))


def test_an_all_reduce_averages_over_all_members_each_time() -> None:
    with open_box() as connect:

        def work(rank: int) -> list[list[float]]:
            arrays = [np.zeros(3, np.float32), np.zeros((2, 2), np.float32)]
            averages = []
            with BoxGroup(connect(), "g", arrays, rank, SIZE) as group:
                for call in range(7):
                    if call % SIZE == rank:
                        time.sleep(0.01)  # another member comes last each time
                    for array in arrays:
                        array[:] = 10 * call + rank
                    group.all_reduce(arrays)
                    averages.append([*arrays[0].tolist(), *arrays[1].ravel().tolist()])
            return averages

        results = together(work)
    assert results[1] == results[0] and results[2] == results[0]
    np.testing.assert_allclose(
        results[0], np.repeat([[10 * call + 1] for call in range(7)], 7, axis=1), rtol=1e-6
    )


def test_a_broadcast_sets_all_members_to_the_root() -> None:
    with open_box() as connect:

        def work(rank: int) -> list[float]:
            arrays = [np.zeros(2, np.float32)]
            seen = []
            with BoxGroup(connect(), "g", arrays, rank, SIZE) as group:
                for call in range(4):
                    arrays[0][:] = 10 * call + rank
                    group.all_reduce(arrays)
                    arrays[0][:] += rank
                    group.broadcast(arrays)
                    seen.append(float(arrays[0][0]))
            return seen

        for seen in together(work):
            np.testing.assert_allclose(seen, [1, 11, 21, 31], rtol=1e-6)


def test_members_that_agree_do_as_the_root_although_the_counts_change_meanwhile() -> None:
    with open_box() as connect:

        def work(rank: int) -> list[bool]:
            arrays = [np.full(2, rank, np.float32)]
            answers = []
            with (
                BoxGroup(connect(), "g", arrays, rank, SIZE) as group,
                Termination(connect(), "t", SIZE, 8, "average") as termination,
            ):
                for step in range(40):
                    time.sleep(0.001 * ((step + rank) % 3))
                    answers.append(group.agree(termination.advance(rank)))
                    if answers[-1]:
                        break
                    group.all_reduce(arrays)
                    group.broadcast(arrays)
            return answers

        answers = together(work)
        assert answers[0][-1] and not any(answers[0][:-1])
        assert answers == [answers[0]] * SIZE


def test_the_answer_of_the_root_counts() -> None:
    with open_box() as connect:

        def work(rank: int) -> list[bool]:
            with BoxGroup(connect(), "g", [np.zeros(1)], rank, SIZE) as group:
                return [group.agree((rank == 0) == said) for said in (True, False, True, True)]

        assert together(work) == [[True, False, True, True]] * SIZE


def test_members_stay_together_after_an_answer_without_a_truth() -> None:
    with open_box() as connect:

        def work(rank: int) -> list[bool]:
            given: list[Any] = [2, None, [], np.array(True), 0.0, "no"]
            with BoxGroup(connect(), "g", [np.zeros(1)], rank, SIZE) as group:
                if rank == 0:
                    with pytest.raises(fw.InvalidArgument, match="neither true nor false"):
                        group.agree(np.zeros(2))  # type: ignore[arg-type]
                return [group.agree(answer) for answer in given]

        assert together(work) == [[True, False, False, True, False, True]] * SIZE


def test_a_group_of_one_is_itself() -> None:
    with open_box() as connect:
        arrays = [np.full(2, 7, np.float32)]
        with BoxGroup(connect(), "g", arrays, 0, 1) as group:
            for _ in range(4):
                group.all_reduce(arrays)
                group.broadcast(arrays)
                assert group.agree(True) and not group.agree(False)
        assert arrays[0].tolist() == [7, 7]


def test_the_root_needs_a_client() -> None:
    with pytest.raises(fw.InvalidArgument, match="the root has no client"):
        HybridSEASGD(None, "w", [np.zeros(2)], all_reduce=id, broadcast=id, root=True)


class Calls:
    """Stands for the collectives of another library, in a group of one."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def all_reduce(self, arrays: object) -> None:
        self.made.append("all_reduce")

    def broadcast(self, arrays: object) -> None:
        self.made.append("broadcast")


def test_a_step_averages_in_the_group_and_exchanges_in_each_period() -> None:
    with open_box() as connect:
        calls, mine = Calls(), [np.zeros(2, np.float32)]
        with HybridSEASGD(
            connect(),
            "w",
            mine,
            all_reduce=calls.all_reduce,
            broadcast=calls.broadcast,
            root=True,
            moving_rate=0.5,
            period=2,
        ) as sgd:
            assert calls.made == ["broadcast"]
            mine[0][:] = 8
            sgd.step(mine)
            assert (calls.made[1:], mine[0].tolist()) == (["all_reduce"], [8, 8])
            sgd.step(mine)
            assert calls.made[2:] == ["all_reduce", "broadcast"]
            assert mine[0].tolist() == [4, 4]
        assert connect().attach("w").read().tolist() == [4, 4]


def test_a_closed_object_makes_no_call_of_its_group() -> None:
    calls, mine = Calls(), [np.zeros(2, np.float32)]
    sgd = HybridSEASGD(
        None, "w", mine, all_reduce=calls.all_reduce, broadcast=calls.broadcast, root=False
    )
    sgd.close()
    sgd.close()
    with pytest.raises(fw.FailedPrecondition, match="the object is closed"):
        sgd.step(mine)
    assert calls.made == ["broadcast"]


def test_two_groups_of_two_follow_the_formula() -> None:
    """Group 0 exchanges before group 1, in each of the steps."""
    rate, steps = 0.25, 4
    with open_box() as connect:
        turns = connect().create("turns", (1,), np.int64)
        started = threading.Barrier(4)

        def work(number: int) -> float:
            group, rank = divmod(number, 2)
            mine = [np.zeros(1, np.float32)]
            client = connect()
            with (
                BoxGroup(client, f"group {group}", mine, rank, 2) as members,
                HybridSEASGD(
                    client if rank == 0 else None,
                    "w",
                    mine,
                    all_reduce=members.all_reduce,
                    broadcast=members.broadcast,
                    root=rank == 0,
                    moving_rate=rate,
                ) as sgd,
            ):
                started.wait(20)
                for step in range(steps):
                    mine[0] += 1 + number  # the members' own updates
                    if rank == 0:
                        turns.wait(2 * step + group, 20)
                    sgd.step(mine)
                    if rank == 0:
                        sgd.flush()
                        turns.post.accumulate(np.ones(1, np.int64)).wait(20)
            return float(mine[0][0])

        ends = together(work, 4)
        shared = float(connect().attach("w").read()[0])

    expected, center = [0.0, 0.0], 0.0
    for _ in range(steps):
        for group, average in enumerate((1.5, 3.5)):
            expected[group] += average
            delta = rate * (expected[group] - center)
            expected[group] -= delta
            center += delta
    np.testing.assert_allclose(ends, np.repeat(expected, 2), rtol=1e-5)
    assert shared == pytest.approx(center, rel=1e-5)


def test_a_group_that_lost_a_member_starts_again_from_the_shared_weights() -> None:
    with open_box() as connect:
        clients = [connect(), connect()]

        def start(rank: int, value: float) -> tuple[BoxGroup, HybridSEASGD, list[np.ndarray]]:
            mine = [np.full(2, value, np.float32)]
            group = BoxGroup(clients[rank], "g", mine, rank, 2)
            sgd = HybridSEASGD(
                clients[rank], "w", mine, root=rank == 0,
                all_reduce=group.all_reduce, broadcast=group.broadcast,
            )  # fmt: skip
            return group, sgd, mine

        other = [np.full(2, 7, np.float32)]
        with (
            HybridSEASGD(
                connect(), "w", other, all_reduce=id, broadcast=id, root=True
            ) as other_group,
            ThreadPoolExecutor(2) as pool,
        ):
            old = list(pool.map(start, range(2), [1, 2]))
            assert all(mine[0].tolist() == [7, 7] for _, _, mine in old)
            clients[1].close()  # as the end of its process does
            for _ in range(2):
                with pytest.raises(fw.FailedPrecondition, match="start all members"):
                    old[0][1].step(old[0][2])
            old[0][1].close()
            old[0][0].close()
            clients[1] = connect()
            again = list(pool.map(start, range(2), [3, 4]))
            assert all(mine[0].tolist() == [7, 7] for _, _, mine in again)
            list(pool.map(lambda each: each[1].step(each[2]), again))
            other_group.step(other)
            for group, sgd, _ in again:
                sgd.close()
                group.close()
