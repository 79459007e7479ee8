"""Termination: the three rules, and workers that stop together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from boxes import open_box

import farwrite as fw
from farwrite.box.training import Termination
from interrupted import interrupt_each_place


@pytest.mark.parametrize(
    ("rule", "order", "stops_after"),
    [
        ("master", [1, 1, 1, 2, 0, 0, 1, 0], 8),
        ("first", [0, 1, 2, 1, 0, 1, 2], 6),
        ("average", [1, 1, 1, 1, 1, 1, 2, 2, 0], 9),
    ],
)
def test_a_rule_stops_after_the_right_iteration(
    rule: str, order: list[int], stops_after: int
) -> None:
    """Three workers, a target of three; `order` says whose iteration ends when."""
    with open_box() as connect, Termination(connect(), "t", 3, 3, rule) as termination:
        answers = [termination.advance(worker) for worker in order]
        assert answers == [number >= stops_after for number in range(1, len(order) + 1)]
        assert termination.counts().tolist() == [order.count(worker) for worker in range(3)]
        assert all(termination.advance(worker) for worker in range(3))


@pytest.mark.parametrize("rule", ["master", "first", "average"])
def test_workers_of_unequal_speed_stop_together(rule: str) -> None:
    with open_box() as connect:
        # A worker that starts when all others have ended would be refused.
        all_started = threading.Barrier(3)

        def work(worker: int) -> int:
            with Termination(connect(), "t", 3, 20, rule) as termination:
                all_started.wait(60)
                iterations = 1
                while not termination.advance(worker):
                    iterations += 1
                return iterations

        with ThreadPoolExecutor(3) as pool:
            iterations = list(pool.map(work, range(3)))
        with Termination(connect(), "t", 3, 20, rule, takeover=True) as termination:
            assert termination.stopped
            assert termination.counts().tolist() == iterations
    if rule == "master":
        assert iterations[0] >= 20
    elif rule == "first":
        assert max(iterations) >= 20
    else:
        assert sum(iterations) >= 60


def test_a_worker_that_starts_late_stops_at_once() -> None:
    with open_box() as connect:
        with Termination(connect(), "t", 2, 1) as termination:
            assert termination.advance(0)
            with Termination(connect(), "t", 2, 1) as late:
                assert late.advance(1)
        with Termination(connect(), "t", 2, 1, takeover=True) as later:
            assert later.advance(1)


def test_a_worker_that_was_replaced_counts_no_more() -> None:
    with (
        open_box() as connect,
        Termination(connect(), "t", 1, 20) as hanging,
        Termination(connect(), "t", 1, 20) as replacing,
    ):
        assert not hanging.advance(0)
        connect().attach("t.0").free()
        assert not replacing.advance(0)
        with pytest.raises(fw.FailedPrecondition, match=r"'t\.0' was freed"):
            hanging.advance(0)
        assert replacing.counts().tolist() == [2]


def test_an_exception_while_a_number_is_taken_leaves_a_count_that_counts() -> None:
    with open_box() as connect, Termination(connect(), "t", 1000, 9) as termination:
        worker = 0

        def count_again() -> None:
            nonlocal worker
            termination.advance(worker)
            before = termination.counts()[worker]
            assert before in (1, 2)  # the interrupted call may have counted
            termination.advance(worker)
            assert termination.counts()[worker] == before + 1
            worker += 1  # the next one takes a number anew

        places = interrupt_each_place(
            lambda: termination.advance(worker),
            count_again,
            *("counters.py", "claims.py", "changes.py"),
        )
        assert places > 10


def test_a_closed_object_takes_no_number() -> None:
    with open_box() as connect:
        closed = Termination(connect(), "t", 2, 5)
        with Termination(connect(), "t", 2, 5) as living:
            closed.close()
            for call in (lambda: closed.advance(1), lambda: closed.stopped, closed.counts):
                with pytest.raises(fw.FailedPrecondition, match="the object is closed"):
                    call()
            assert not living.advance(1)


def test_what_makes_no_sense_is_refused() -> None:
    with open_box() as connect:
        with pytest.raises(fw.InvalidArgument, match="'master', 'first' or 'average'"):
            Termination(connect(), "t", 2, 1, "last")
        with pytest.raises(fw.InvalidArgument, match="target 0 is out of range"):
            Termination(connect(), "t", 2, 0)
        termination = Termination(connect(), "t", 2, 1)
        with pytest.raises(fw.InvalidArgument, match="worker 2 is out of range"):
            termination.advance(2)
        with pytest.raises(fw.InvalidArgument, match=r"counts of 2 workers.*was told of 3"):
            Termination(connect(), "t", 3, 1)
        termination.close()
