"""The memory of freed segments: used again at any size, and given back to the system."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from box_process import BoxProcess
from box_servers import other_process

import farwrite as fw

REST = 20 << 20
"""Bytes that each may hold at rest here: the first segment of its memory and the mailboxes."""


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


def test_freed_memory_is_used_again_wherever_it_lay() -> None:
    quarter = 16 << 20
    with fw.box.serve(memory="80M", pool=0, segment_bytes="4M") as server, server.connect() as box:
        segments = [box.create(f"s{i}", (quarter,), "uint8") for i in range(4)]
        for freed in segments[::2]:
            freed.free()
        larger = box.create("larger", (2 * quarter,), "uint8")
        with pytest.raises(fw.ResourceExhausted, match="has no room for a buffer"):
            box.create("over", (quarter,), "uint8")
        assert larger.nbytes == 2 * quarter


def mapped_bytes(process: int) -> int:
    """Bytes of shared memory that are resident in a process."""
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssShmem:"))
    return int(line.split()[1]) << 10


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_memory_that_rests_goes_back_to_the_system(fabric: str) -> None:
    """The table of the page: what server, trainer and reader hold at rest."""
    size = 32 << 20
    trains = f"""
        model = {{"w": np.ones({size}, np.uint8)}}
        publisher = box.publisher("model", like=model)
        for _ in range(3):
            publisher.publish(model)
        print("published")
        sys.stdin.readline()
        publisher.free()
        print("freed")
        sys.stdin.readline()
    """
    reads = """
        model = box.subscribe("model").latest(timeout=10)
        print(int(model["w"][-1]))
        sys.stdin.readline()
        model.close()
        print("closed")
        sys.stdin.readline()
    """
    options = {"fabrics": [fabric], "memory_idle_time": 1.0}
    with (
        other_process(FARWRITE_MEMORY_IDLE_TIME="1s", FARWRITE_SEGMENT_BYTES="4M") as (
            endpoint,
            server,
        ),
        BoxProcess(endpoint, trains, **options) as trainer,
    ):
        assert trainer.line() == "published"
        with BoxProcess(endpoint, reads, **options) as reader:
            assert reader.line() == "1"
            assert mapped_bytes(server) > size
            reader.tell()
            assert reader.line() == "closed"
            trainer.tell()
            assert trainer.line() == "freed"
            for process in (server, trainer.pid, reader.pid):
                give_up = time.monotonic() + 60
                while mapped_bytes(process) > REST:
                    assert time.monotonic() < give_up, mapped_bytes(process)
                    time.sleep(0.05)
