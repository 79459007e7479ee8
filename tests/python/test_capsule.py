"""A channel as a PyCapsule, for extension modules in C++."""

from __future__ import annotations

import ctypes
import gc

from conftest import Pair

NAME = b"farwrite::Channel"


def pointer(capsule: object) -> int | None:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, NAME)


def test_a_capsule_holds_a_channel_of_its_own(pair: Pair) -> None:
    first, second = pair.near.as_capsule(), pair.near.as_capsule()
    assert type(first).__name__ == "PyCapsule"
    assert pointer(first)
    assert pointer(first) != pointer(second)


def test_a_capsule_may_outlive_the_channel_and_be_dropped_first(pair: Pair) -> None:
    capsule = pair.near.as_capsule()
    pair.far.send(b"still here").wait(10)
    dropped = pair.near.as_capsule()
    del dropped
    gc.collect()
    assert pair.near.wait_notification(10).message == b"still here"
    pair.near.close()
    assert pointer(capsule)
    del capsule
    gc.collect()
