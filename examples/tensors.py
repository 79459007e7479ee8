"""Streams arrays to a second process and gets their sums back, over one channel.

The batches have a fixed shape, so each is one write into memory that the worker has granted: as
many slots as batches, or some would be offered and read instead. The sums are single numbers on an
edge of their own, in the other direction.
"""

import multiprocessing

import numpy as np

import farwrite as fw

BATCHES = 5
SHAPE = (1024, 256)


def worker(endpoint: str) -> None:
    """Sum what comes, until the sender closes."""
    with (
        fw.Device() as device,
        device.connect(endpoint) as channel,
        fw.TensorReceiver(channel, "batches", SHAPE, "f4", slots=BATCHES) as batches,
        fw.TensorSender(channel, "sums") as sums,
    ):
        for batch in batches:
            sums.send(batch.sum(keepdims=True, dtype="f8"))


def main() -> None:
    """Send the batches, and print what comes back."""
    with fw.Device() as device:
        process = multiprocessing.get_context("spawn").Process(
            target=worker, args=(device.endpoint,)
        )
        process.start()
        with (
            device.accept(timeout=30) as channel,
            fw.TensorReceiver(channel, "sums", (1, 1), "f8", slots=BATCHES) as sums,
        ):
            with fw.TensorSender(channel, "batches") as batches:
                to_open = batches.stats().requests  # one a slot, once
                for number in range(BATCHES):
                    batches.send(np.full(SHAPE, number, "f4")).wait()
                print("requests for batches:", batches.stats().requests - to_open)
            for number, total in enumerate(sums):
                print(f"batch {number}: {total.item():.0f}")
        process.join()


if __name__ == "__main__":
    main()
