"""Streams arrays to a second process and receives their sums, over one channel.

The batches have a fixed shape, so each batch is one write into a slot that the worker has granted.
There are as many slots as batches. With fewer slots, some batches would be offered and read
instead. The sums are single numbers on a second edge, in the other direction.
"""

import multiprocessing

import numpy as np

import farwrite as fw

BATCHES = 5
SHAPE = (1024, 256)


def worker(endpoint: str) -> None:
    """Sum each batch, until the sender closes the edge."""
    with (
        fw.Device() as device,
        device.connect(endpoint) as channel,
        fw.TensorReceiver(channel, "batches", SHAPE, "f4", slots=BATCHES) as batches,
        fw.TensorSender(channel, "sums") as sums,
    ):
        for batch in batches:
            sums.send(batch.sum(keepdims=True, dtype="f8"))


def main() -> None:
    """Send the batches, and print the sums."""
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
                to_open = batches.stats().requests  # one for each slot
                for number in range(BATCHES):
                    batches.send(np.full(SHAPE, number, "f4")).wait()
                print("requests for batches:", batches.stats().requests - to_open)
            for number, total in enumerate(sums):
                print(f"batch {number}: {total.item():.0f}")
        process.join()


if __name__ == "__main__":
    main()
