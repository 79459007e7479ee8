"""A channel as a PyCapsule, for extension modules in C and C++."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import farwrite as fw
from conftest import Pair

NAME = b"fw_channel"


def pointer(capsule: object) -> int | None:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, NAME)


def test_a_capsule_holds_a_channel_of_its_own(pair: Pair) -> None:
    first, second = pair.near.as_capsule(), pair.near.as_capsule()
    assert type(first).__name__ == "PyCapsule"
    assert pointer(first)
    assert pointer(first) != pointer(second)


def test_the_pointer_is_a_channel_of_the_c_abi(pair: Pair) -> None:
    capsule = pair.near.as_capsule()
    library = ctypes.CDLL(str(Path(fw.__file__).parent / "libfarwrite.so"))
    library.fw_channel_peer_name.restype = ctypes.c_char_p
    library.fw_channel_peer_name.argtypes = [ctypes.c_void_p]
    library.fw_channel_share.restype = ctypes.c_void_p
    library.fw_channel_share.argtypes = library.fw_channel_release.argtypes = [ctypes.c_void_p]
    assert library.fw_channel_peer_name(pointer(capsule)) == pair.near.peer.endpoint.encode()
    shared = library.fw_channel_share(pointer(capsule))
    del capsule
    gc.collect()
    assert library.fw_channel_peer_name(shared) == pair.near.peer.endpoint.encode()
    library.fw_channel_release(shared)
    pair.far.send(b"still here").wait(10)
    assert pair.near.wait_notification(10).message == b"still here"


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
