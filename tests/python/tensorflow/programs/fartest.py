"""The device of tests/tensorflow_device in this process: loads it, asks it, makes it fail."""

import ctypes
import functools
import json
import os

DIRECTIONS = {"to_host": 0, "to_device": 1}


def wanted():
    """Whether the test has given this process the device."""
    return "FARTEST_LIBRARY" in os.environ


def load(tf):
    """Register FARTEST with TensorFlow, before it makes its devices."""
    tf.load_library(os.environ["FARTEST_LIBRARY"])


@functools.cache
def library():
    opened = ctypes.CDLL(os.environ["FARTEST_LIBRARY"])  # the one that TensorFlow has loaded
    opened.fartest_counters.restype = ctypes.c_char_p
    for fault in (opened.fartest_fail, opened.fartest_hold):
        fault.argtypes = [ctypes.c_int, ctypes.c_uint64]
    opened.fartest_limit_memory.argtypes = [ctypes.c_uint64]
    return opened


def obey(words):
    """Do what a test says, and return what all devices of this process did (counters.h).

    ``fail to_host 2`` lets the second copy to the host from now fail. ``hold to_device 1`` stops
    the next copy to the device in its middle, until ``release``. ``limit BYTES`` is all that can
    be allocated on a device.
    """
    match words:
        case ["fail", direction, number]:
            library().fartest_fail(DIRECTIONS[direction], int(number))
        case ["hold", direction, number]:
            library().fartest_hold(DIRECTIONS[direction], int(number))
        case ["release"]:
            library().fartest_release()
        case ["limit", size]:
            library().fartest_limit_memory(int(size))
        case ["counters"]:
            pass
        case _:
            raise ValueError(f"the device does not do {words}")
    return json.loads(library().fartest_counters())
