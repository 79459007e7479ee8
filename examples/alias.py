"""Looks at another process's array without copying it.

The owner allocates its weights in registered memory and publishes them. The reader looks them up
and gets a read-only NumPy array over the owner's own bytes, however large it is.
"""

import multiprocessing

import numpy as np

import farwrite as fw

SHAPE = (4096, 4096)


def own(endpoint: str, published: str) -> None:
    """Allocate the weights where peers can see them, and wait until the reader has looked."""
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
        # The owner is gone; its bytes stay as long as somebody looks at them.
        print(f"after the owner's end: {weights[0, :4]}")


if __name__ == "__main__":
    main()
