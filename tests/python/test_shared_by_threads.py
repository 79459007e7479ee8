"""Threads share devices, channels, edges, boxes and completions, and get what one thread gets.

With the GIL and, where the tests run on a free-threaded Python, without it: the programs are in
`shared_by_threads`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

import shared_by_threads
from farwrite.lifetime.weak_objects import WeakObjects
from shared_by_threads import SHARED, at_once, turns


@pytest.fixture(autouse=True)
def threads_take_turns_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("name", SHARED)
def test_threads_get_from_shared_objects_what_one_thread_gets(name: str) -> None:
    SHARED[name](0.5)
    shared_by_threads.check_gil()


class Thing:
    pass


def test_weak_objects_are_listed_while_threads_add_and_drop_them() -> None:
    things = WeakObjects[Thing]()
    kept = [Thing() for _ in range(100)]
    for thing in kept + kept:
        things.add(thing)
    assert sorted(map(id, things.alive())) == sorted(map(id, kept))

    def add_and_drop() -> None:
        for _ in turns(0.3):
            mine = Thing()
            things.add(mine)
            assert mine in things.alive()
            dropped = Thing()
            things.add(dropped)
            things.discard(dropped)
            assert dropped not in things.alive()

    at_once(add_and_drop, add_and_drop, add_and_drop)
    things.discard(kept.pop())
    gc.collect()
    assert sorted(map(id, things.alive())) == sorted(map(id, kept))


def test_the_check_of_the_gil_fails_if_a_module_switched_it_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_by_threads.sysconfig, "get_config_var", lambda _: 1)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    with pytest.raises(AssertionError, match="switched the GIL on"):
        shared_by_threads.check_gil()
