"""Sends tensors between two processes on a given fabric and compares every byte.

    exchange.py both FABRIC                    one host, two processes
    exchange.py serve FABRIC ADDRESS           two hosts: the sender ...
    exchange.py ask FABRIC ADDRESS PEER        ... and the receiver, which connects to it
    exchange.py large FABRIC                   one host, two processes, one tensor of 1 GiB

Slots are filled by writes; what has no fixed shape is read by its receiver. One tensor is longer
than the longest message of soft-RoCE in Linux 6.1 (8 MiB), so that it takes several.
"""

from __future__ import annotations

import multiprocessing
import sys
import time

import numpy as np
import numpy.typing as npt

import farwrite as fw

PORT = 7471
WAIT = 60.0
LARGE_WAIT = 600.0
LARGE_WORDS = (1 << 30) // 8
BLOCK_WORDS = 1 << 23  # checked at once
ROUNDS = 8
SLOT_SHAPE = (256, 1024)
# Lengths of what is read, around the borders of packets and messages.
LENGTHS = (0, 1, 4095, 4097, 65536, 1_000_003, (8 << 20) + 4097)


def slot_array(number: int) -> npt.NDArray[np.float32]:
    """Return what round `number` writes into a slot."""
    return np.random.default_rng(number).random(SLOT_SHAPE, np.float32)


def read_array(number: int) -> npt.NDArray[np.uint8]:
    """Return what round `number` offers to be read."""
    random = np.random.default_rng(1000 + number)
    return random.integers(0, 256, LENGTHS[number % len(LENGTHS)], np.uint8)


def send(channel: fw.Channel) -> None:
    """Send every round's arrays, and wait for the receiver's word that all were right."""
    with fw.TensorSender(channel, "slots") as slots, fw.TensorSender(channel, "reads") as reads:
        for number in range(ROUNDS):
            slots.send(slot_array(number)).wait(WAIT)
            reads.send(read_array(number)).wait(WAIT)
        verdict = fw.TensorReceiver(channel, "verdict", (1,), "u1")
        assert verdict.receive(WAIT)[0] == ROUNDS
        verdict.close()


def receive(channel: fw.Channel) -> None:
    """Compare what comes with what must come."""
    with (
        fw.TensorReceiver(channel, "slots", SLOT_SHAPE, "f4") as slots,
        fw.TensorReceiver(channel, "reads") as reads,
    ):
        for number in range(ROUNDS):
            np.testing.assert_array_equal(slots.receive(WAIT), slot_array(number))
            np.testing.assert_array_equal(reads.receive(WAIT), read_array(number))
        print(f"exchange: {ROUNDS} rounds are right on {channel.peer.fabric}", flush=True)
        with fw.TensorSender(channel, "verdict") as verdict:
            verdict.send(np.full(1, ROUNDS, np.uint8)).wait(WAIT)


def send_large(device: fw.Device, channel: fw.Channel) -> None:
    """Send 1 GiB from where it lies."""
    memory = device.allocate(LARGE_WORDS, "u8")
    for start in range(0, LARGE_WORDS, BLOCK_WORDS):
        memory.array[start : start + BLOCK_WORDS] = np.arange(start, start + BLOCK_WORDS)
    with fw.TensorSender(channel, "large") as large:
        large.send(memory.array).wait(LARGE_WAIT)
        verdict = fw.TensorReceiver(channel, "verdict", (1,), "u1")
        assert verdict.receive(LARGE_WAIT)[0] == 1
        verdict.close()


def receive_large(channel: fw.Channel) -> None:
    """Compare every word of it."""
    with fw.TensorReceiver(channel, "large") as large:
        began = time.monotonic()
        words = large.receive(LARGE_WAIT)
        took = time.monotonic() - began
        assert words.shape == (LARGE_WORDS,)
        for start in range(0, LARGE_WORDS, BLOCK_WORDS):
            wanted = np.arange(start, start + BLOCK_WORDS, dtype="u8")
            np.testing.assert_array_equal(words[start : start + BLOCK_WORDS], wanted)
        print(f"exchange: 1 GiB is right on {channel.peer.fabric}, {took:.0f} s", flush=True)
        with fw.TensorSender(channel, "verdict") as verdict:
            verdict.send(np.ones(1, np.uint8)).wait(WAIT)


def serve(fabric: str, listen: str) -> None:
    """Send to the code that connects."""
    with fw.Device(listen=listen, fabrics=[fabric]) as device, device.accept(WAIT) as channel:
        assert channel.peer.fabric == fabric
        send(channel)


def ask(fabric: str, listen: str, endpoint: str, large: bool = False) -> None:
    """Receive from the peer at `endpoint`."""
    with (
        fw.Device(listen=listen, fabrics=[fabric]) as device,
        device.connect(endpoint, WAIT) as channel,
    ):
        assert channel.peer.fabric == fabric
        if large:
            receive_large(channel)
        else:
            receive(channel)


def both(fabric: str, address: str, large: bool) -> None:
    """Do both in two processes of this host."""
    with fw.Device(listen=f"{address}:0", fabrics=[fabric]) as device:
        asker = multiprocessing.get_context("spawn").Process(
            target=ask, args=(fabric, f"{address}:0", device.endpoint, large)
        )
        asker.start()
        try:
            with device.accept(WAIT) as channel:
                if large:
                    send_large(device, channel)
                else:
                    send(channel)
        finally:
            asker.join()
    if asker.exitcode != 0:
        sys.exit(f"the receiver ended with {asker.exitcode}")


def main(role: str, fabric: str, address: str = "127.0.0.1", peer: str = "") -> None:
    """Play one role."""
    if role in ("both", "large"):
        both(fabric, address, role == "large")
    elif role == "serve":
        serve(fabric, f"{address}:{PORT}")
    elif role == "ask":
        ask(fabric, f"{address}:0", f"{peer}:{PORT}")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
