"""The second process of ``farwrite bench gpu``: it owns the regions that the first one uses."""

from __future__ import annotations

import numpy as np

import farwrite as fw

WORK, CHECK, HAND_OVER, END = 1, 2, 3, 4
"""Tags of notifications."""


def serve(endpoint: str, size: int, ordinal: int) -> None:
    """Publish regions of `size` bytes, on the GPU and in host memory, until the channel closes.

    A message with the tag CHECK, a byte as text, is answered: whether every byte of both inboxes
    is that one. One with the tag HAND_OVER has a spare region of the GPU published by that name.
    """
    kind = f"cuda:{ordinal}"
    with fw.Device() as device, device.connect(endpoint) as channel:
        inboxes = {
            "gpu": channel.publish("gpu-in", channel.allocate(size, kind=kind)),
            "host": channel.publish("host-in", channel.allocate(size)),
        }
        on_gpu = device.publish("gpu-out", device.allocate(size, kind=kind))
        on_host = device.publish("host-out", device.allocate(size))
        spare = device.allocate(size, kind=kind)
        on_gpu.array.copy_from(np.full(size, 3, "uint8"))
        on_host.array[:] = 4
        while (news := channel.next_notification()) is not None:
            if news.tag == CHECK:
                box, value, length = news.message.decode().split()
                wrong = _wrong(inboxes[box], int(value), int(length))
                channel.send(str(wrong).encode(), CHECK).wait()
            elif news.tag == HAND_OVER:
                name = news.message.decode()
                device.publish(name, spare)
                channel.notify(HAND_OVER).wait()


def _wrong(inbox: fw.RegisteredArray, value: int, length: int) -> int:
    seen = np.empty(inbox.nbytes, "uint8")
    if isinstance(inbox.array, fw.CudaArray):
        inbox.array.copy_to(seen)
    else:
        seen[:] = inbox.array
    return int(np.count_nonzero(seen[:length] != value))
