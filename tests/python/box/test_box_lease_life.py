"""Leased bytes stay what they were: after every kind of end, and in forked children."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from box_process import BoxProcess

import farwrite as fw
from processes import wait_until

SIZE = 1 << 16
FIRST = 1.0  # what the leased version holds


@pytest.fixture
def weights(box: fw.box.Client) -> fw.box.Segment:
    """A segment of which the first version is to be leased."""
    segment = box.create("w", SIZE, "float32")
    segment.fill(FIRST)
    return segment


def change(segment: fw.box.Segment) -> None:
    """Use every buffer that is free, several times."""
    for value in range(2, 14):
        segment.fill(value)
        segment.accumulate(np.ones(SIZE, "float32"), start=0)


def is_first(array: npt.NDArray[np.float32]) -> bool:
    return bool((array == FIRST).all())


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_closed_client_leaves_nothing_with_the_server_though_its_segments_live(
    box_server: fw.box.Server, weights: fw.box.Segment
) -> None:
    program = f"""
        kept = []
        print("connected")
        sys.stdin.readline()
        for number in range(6):
            with fw.box.connect(sys.argv[1], **json.loads(sys.argv[2])) as client:
                segment = client.attach("w")
                segment.accumulate(np.ones({SIZE}, "float32"), start=0)
                segment.read()
                if number % 2:
                    segment.detach()
                kept.append(segment)
        print("closed")
        sys.stdin.readline()
    """
    with BoxProcess(box_server.endpoint, program) as client:
        assert client.line() == "connected"
        before = descriptors()
        client.tell()
        assert client.line() == "closed"
        wait_until(lambda: descriptors() <= before)


ENDS: dict[str, Callable[[fw.box.Client, fw.box.Segment, fw.box.Lease], object]] = {
    "the lease closes": lambda client, segment, lease: lease.close(),
    "the segment is detached": lambda client, segment, lease: segment.detach(),
    "the client closes": lambda client, segment, lease: client.close(),
    "all of these": lambda client, segment, lease: (
        segment.detach(), client.close(), lease.close()
    ),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_an_array_of_a_lease_stays_when(
    end: Callable[..., object],
    box_server: fw.box.Server,
    weights: fw.box.Segment,
) -> None:
    client = box_server.connect(segment_bytes=4 << 20)
    segment = client.attach("w")
    lease = segment.lease()
    kept = lease.array
    end(client, segment, lease)
    change(weights)
    assert is_first(kept)
    mapped = client.server.fabric == "shm"
    assert box_server.stats().leases == (1 if mapped else 0)
    del lease, kept
    wait_until(lambda: box_server.stats().leases == 0)
    client.close()


def test_a_closed_client_gives_nothing_more_to_look_at(box_server: fw.box.Server) -> None:
    with box_server.connect(segment_bytes=4 << 20) as client:
        segment = client.create("w", SIZE, "float32")
    with pytest.raises(fw.Cancelled):
        segment.lease()
    with pytest.raises((fw.Cancelled, fw.Unsupported)):
        segment.view()


def test_arrays_of_a_freed_segment_stay(
    box_server: fw.box.Server, box: fw.box.Client, weights: fw.box.Segment
) -> None:
    client = box_server.connect(segment_bytes=4 << 20)
    segment = client.attach("w")
    arrays = [segment.lease().array]
    if client.server.fabric == "shm":
        arrays.append(segment.view())  # live, but of this segment for ever
    segment.free()
    client.close()
    for number in range(20):
        box.create(f"other {number}", SIZE, "float32", buffers=2).fill(9)
    assert [is_first(array) for array in arrays] == [True] * len(arrays)


def test_a_model_stays_when_its_subscriber_has_gone(box_server: fw.box.Server) -> None:
    publisher = box_server.publisher("model", like={"w": np.zeros(SIZE, "float32")})
    publisher.publish({"w": np.full(SIZE, FIRST, "float32")})
    client = box_server.connect(segment_bytes=4 << 20)
    subscriber = client.subscribe("model")
    model = subscriber.latest()
    kept = model["w"]
    model.close()
    subscriber.close()
    client.close()
    for value in range(2, 14):
        publisher.publish({"w": np.full(SIZE, value, "float32")})
    assert is_first(kept)


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_an_array_of_a_lease_stays_when_the_server_closes(fabric: str) -> None:
    zeros = {"w": np.zeros(SIZE, "float32")}
    server = fw.box.serve(memory="64M", pool="4M", segment_bytes=4 << 20, fabrics=[fabric])
    publisher = server.publisher("model", like=zeros, buffers=2)
    publisher.publish({"w": np.full(SIZE, FIRST, "float32")})
    other = server.connect(segment_bytes=4 << 20)
    weights = other.create("w", SIZE, "float32", buffers=2)
    weights.fill(FIRST)
    client = server.connect(segment_bytes=4 << 20)
    arrays = [client.subscribe("model").latest()["w"], client.attach("w").lease().array]
    post = [weights.post.fill(value) for value in range(2, 50)]  # some are under way
    server.close()
    for value in range(2, 14):
        with pytest.raises(fw.Error):
            publisher.publish({"w": np.full(SIZE, value, "float32")})
    assert [is_first(array) for array in arrays] == [True, True]
    del server, publisher, post
    assert [is_first(array) for array in arrays] == [True, True]
    client.close()
    other.close()


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_an_array_of_a_lease_stays_when_the_server_is_killed(fabric: str, tmp_path: Path) -> None:
    with fw.box.serve(memory="8M", pool="2M") as unused:
        program = f"""
            server = fw.box.serve(memory="64M", pool="4M", fabrics=["{fabric}"])
            print(server.endpoint)
            sys.stdin.readline()
        """
        with BoxProcess(unused.endpoint, program) as process:
            client = fw.box.connect(process.line(), segment_bytes=4 << 20)
            segment = client.create("w", SIZE, "float32")
            segment.fill(FIRST)
            kept = segment.lease().array
            process.kill()
            with pytest.raises(fw.Error):
                segment.wait(5, timeout=20)
            client.close()
            assert is_first(kept)


BROKEN = """
    import os, socket
    kept = box.attach("w").lease().array
    for name in os.listdir("/proc/self/fd"):  # the connection ends, and the process lives
        try:
            end = socket.socket(fileno=os.dup(int(name)))
            if end.family == socket.AF_INET:
                end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
    print("broken")
    sys.stdin.readline()
    print(bool((kept == 1).all()))
    sys.stdin.readline()
"""


def test_an_array_of_a_lease_stays_when_the_connection_breaks(
    box_server: fw.box.Server, weights: fw.box.Segment
) -> None:
    with BoxProcess(box_server.endpoint, BROKEN) as process:
        assert process.line() == "broken"
        time.sleep(0.2)  # the server may notice it
        change(weights)
        process.tell()
        assert process.line() == "True"
        process.kill()
    wait_until(lambda: box_server.stats().leases == 0)


# The child waits for a line on the standard input that it has from its parent, and then reads.
FORK = """
    import os
    lease = box.attach("w").lease()
    kept = lease.array
    def say(*words):
        os.write(1, (" ".join(map(str, words)) + "\\n").encode())
    def child(reads, generations=1):
        pid = os.fork()
        if pid != 0:
            return pid
        if generations > 1:
            child(reads, generations - 1)
            os._exit(0)
        say("forked", os.getpid())
        for _ in range(reads):
            os.read(0, 1)
            say(bool((kept == 1).all()))
        os._exit(0)
"""
IN_THE_PARENT = {
    "the lease ends": "del kept; lease.close()",
    "the client closes": "box.close()",
    "the lease ends and the client closes": "del kept; lease.close(); box.close()",
    "the client closes and the lease ends": "box.close(); del kept; lease.close()",
    "the segment is freed": "del kept; lease.close(); box.attach('w').free()",
}


def forked_pid(line: str) -> int:
    matched = re.fullmatch(r"forked (\d+)", line)
    assert matched is not None, line
    return int(matched[1])


@pytest.mark.parametrize("end", IN_THE_PARENT.values(), ids=IN_THE_PARENT.keys())
@pytest.mark.parametrize("dies", [False, True], ids=["parent lives", "parent dies"])
def test_an_array_of_a_lease_stays_in_a_forked_child_when(
    dies: bool,
    end: str,
    box_server: fw.box.Server,
    box: fw.box.Client,
    weights: fw.box.Segment,
) -> None:
    program = (
        FORK
        + f"""
    pid = child(2)
    {end}
    say("ended")
    os.waitpid(pid, 0)
    """
    )
    with BoxProcess(box_server.endpoint, program) as process:
        lines = {process.line(), process.line()}
        assert "ended" in lines
        (child,) = (forked_pid(line) for line in lines - {"ended"})
        if dies:
            process.kill()
            time.sleep(0.3)  # the server notices it
        for _ in range(2):
            if "free" in end:
                for number in range(10):
                    box.create(f"other {number}", SIZE, exclusive=False).fill(9)
            else:
                change(weights)
            os.write(process.standard_input, b"x")
            assert process.line() == "True"
        wait_until(lambda: not Path(f"/proc/{child}").exists() or dies)
        process.kill()
        wait_until(lambda: box_server.stats().leases == 0)


def test_an_array_of_a_lease_stays_in_children_of_children(
    box_server: fw.box.Server, weights: fw.box.Segment
) -> None:
    program = (
        FORK
        + """
    for generations in (1, 2, 3):
        child(1, generations)
    del kept; lease.close()
    say("ended")
    sys.stdin.close()
    os.read(2, 0)
    import time
    time.sleep(60)
    """
    )
    with BoxProcess(box_server.endpoint, program) as process:
        lines = [process.line() for _ in range(4)]
        assert "ended" in lines
        children = [forked_pid(line) for line in lines if line != "ended"]
        process.kill()
        for left in range(3):
            time.sleep(0.3)
            change(weights)
            assert box_server.stats().leases in (0, 1), left
            os.write(process.standard_input, b"x")
            assert process.line() == "True"
        del children
    wait_until(lambda: box_server.stats().leases == 0)


def test_a_child_that_runs_another_program_keeps_nothing(
    box_server: fw.box.Server, weights: fw.box.Segment
) -> None:
    program = (
        FORK
        + """
    pid = os.fork()
    if pid == 0:
        os.execlp("sleep", "sleep", "100")
    say("forked", pid)
    sys.stdin.readline()
    """
    )
    with BoxProcess(box_server.endpoint, program) as process:
        pid = forked_pid(process.line())
        try:
            process.kill()
            wait_until(lambda: box_server.stats().leases == 0)
            assert Path(f"/proc/{pid}").exists()
        finally:
            os.kill(pid, signal.SIGKILL)
