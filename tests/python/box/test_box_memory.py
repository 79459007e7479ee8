"""The memory of freed segments: used again at any size, and given back to the system."""

from __future__ import annotations

import numpy as np
import pytest

import farwrite as fw


@pytest.mark.parametrize("place", ["a client's", "the server's"])
def test_freed_memory_is_used_again_at_any_size(place: str) -> None:
    options = {"segment_bytes": 4 << 20}
    with (
        fw.box.serve(memory="64M", pool="4M", **options) as server,
        server.connect(send_limit="64M", **options) as box,
    ):
        for size in (5 << 20, 8 << 20, 11 << 20, 26 << 20):
            model = {"w": np.full(size, 1, np.uint8)}
            publisher = (box if place == "a client's" else server).publisher("model", like=model)
            for _ in range(3):
                publisher.publish(model)
                with box.subscribe("model").latest(timeout=60) as found:
                    assert found["w"][-1] == 1
            publisher.free()
