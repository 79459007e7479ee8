"""What either end of a named edge does in a random program: functions of its state."""

from __future__ import annotations

import asyncio
import random
import time
import zlib
from typing import Any

import numpy as np

import farwrite as fw
from random_programs.actors import PATIENCE
from random_programs.program import NUMBERS

DTYPES = ("float32", "int8", "bool", "complex64", "float64", "<U3", ">i4", "uint16", "float16")
SHAPES = ((), (0,), (3,), (4, 0, 2), (5, 7), (1000,), (64, 1024), (300_000,))
WAYS = ("receive", "try_receive", "receive_async")

Digest = tuple[str, tuple[int, ...], int]


def digest(array: Any) -> Digest:
    """What two arrays share only if they are equal bit by bit."""
    return array.dtype.str, array.shape, zlib.crc32(array.tobytes())


def made(number: int, fixed: tuple[str, tuple[int, ...]] | None) -> Any:
    """The array of a number, of a fixed dtype and shape if the edge has them."""
    draw = random.Random(number)
    dtype, shape = fixed or (draw.choice(DTYPES), draw.choice(SHAPES))
    size = int(np.prod(shape))
    if dtype == "bool":
        return (np.arange(size) % (number % 7 + 2) == 0).reshape(shape)
    if dtype == "<U3":
        return np.full(shape, str(number % NUMBERS), dtype)
    kind = np.dtype(dtype)
    return np.frombuffer(draw.randbytes(size * kind.itemsize), kind).reshape(shape)


def open_receiver(state: Any, name: str, fixed: Any, options: dict[str, Any]) -> None:
    if fixed is not None and "max_bytes" not in options:
        options = {"dtype": fixed[0], "shape": fixed[1], **options}
    state.kept[name] = fw.TensorReceiver(state.channel, name, **options)
    state.kept["arrays", name] = []


def open_sender(state: Any, name: str) -> None:
    state.kept[name] = fw.TensorSender(state.channel, name, PATIENCE)


def send(state: Any, name: str, fixed: Any, numbers: list[int], registered: bool) -> str:
    """Send arrays, and overwrite each once that is allowed."""
    sender = state.kept[name]
    try:
        for number in numbers:
            array = made(number, fixed)
            if registered:
                # It may be offered where it is, until it was taken and dropped: not waited for.
                source = state.device.allocate(array.shape, array.dtype)
                source.array[...] = array
                sender.send(source, PATIENCE)
                continue
            array = array.copy()
            sender.send(array, PATIENCE).wait(PATIENCE)
            array.reshape(-1).view("uint8")[...] = 0xEE
    except fw.Error as error:
        return type(error).__name__
    return ""


def take(state: Any, name: str, way: str, count: int, limit: float, keep: int) -> tuple[Any, str]:
    """Receive arrays, and keep every keep-th. Returns digests, and what ended it."""
    receiver, kept = state.kept[name], state.kept["arrays", name]
    digests: list[Digest] = []
    give_up = time.monotonic() + limit
    try:
        while len(digests) < count:
            if way == "receive":
                array = receiver.receive(limit)
            elif way == "receive_async":
                array = asyncio.run(receiver.receive_async(limit))
            else:
                while (array := receiver.try_receive()) is None and time.monotonic() < give_up:
                    time.sleep(0.001)
                if array is None:
                    return digests, "DeadlineExceeded"
            digests.append(digest(array))
            if keep and len(digests) % keep == 0:
                kept.append((array, digest(array)))
            del array
    except fw.Error as error:
        return digests, type(error).__name__
    return digests, ""


def iterate(state: Any, name: str, in_loop: bool) -> tuple[Any, str]:
    """Receive until the end of the stream."""
    digests: list[Digest] = []

    async def all_of() -> None:
        async for array in state.kept[name]:
            digests.append(digest(array))

    try:
        if in_loop:
            asyncio.run(all_of())
        else:
            for array in state.kept[name]:
                digests.append(digest(array))
    except fw.Error as error:
        return digests, type(error).__name__
    return digests, "ends"


def call(state: Any, name: str, method: str, *arguments: Any) -> str:
    try:
        getattr(state.kept[name], method)(*arguments)
    except fw.Error as error:
        return type(error).__name__
    return ""


def changed(state: Any) -> list[str]:
    """The edges of which an array that is kept is not any more what it was."""
    return [
        key[1]
        for key, kept in state.kept.items()
        if isinstance(key, tuple)
        for array, before in kept
        if digest(array) != before
    ]


def drop(state: Any, name: str, number: int) -> None:
    """Drop every second array that is kept, or all."""
    arrays = state.kept["arrays", name]
    del arrays[:: 1 + number % 2]


def finish(state: Any) -> None:
    """Let go of all that is kept."""
    state.kept.clear()


def send_and_close(state: Any, name: str, fixed: Any, numbers: list[int]) -> tuple[str, str]:
    return send(state, name, fixed, numbers, False), call(state, name, "close", PATIENCE)


def close_channel(state: Any) -> None:
    state.channel.close()
