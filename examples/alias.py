"""Reads another process's array in place, without a copy.

The owner allocates its weights in registered memory and publishes them. The reader looks the name
up, and gets a read-only NumPy array that views the owner's memory. The size does not matter.
"""

import multiprocessing

import numpy as np

import farwrite as fw

SHAPE = (4096, 4096)


def own(endpoint: str, published: str) -> None:
    """Allocate and publish the weights, and wait until the reader has read them."""
    with fw.Device() as device, device.connect(endpoint) as channel:
        weights = device.publish(published, device.allocate(SHAPE, "float32"))
        weights.array[:] = np.arange(SHAPE[1])
        channel.notify(1)
        channel.wait_notification()


def main() -> None:
    """Read the owner's weights in place."""
    with fw.Device() as device:
        owner = multiprocessing.get_context("spawn").Process(
            target=own, args=(device.endpoint, "weights")
        )
        owner.start()
        with device.accept(timeout=30) as channel:
            channel.wait_notification()
            weights = channel.lookup("weights").alias()
            print(f"{weights.nbytes >> 20} MiB in place, row sum {weights[7].sum():.0f}")
            print(f"bytes copied: {channel.stats().bytes_read}")
            channel.notify(1)
            owner.join()
        # The owner has ended. Its memory stays as long as a view of it exists.
        print(f"after the owner's end: {weights[0, :4]}")


if __name__ == "__main__":
    main()
