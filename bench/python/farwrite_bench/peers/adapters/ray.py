"""Ray's object store: an actor's method takes each payload, which it reads in the store."""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import threading
from collections import deque
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from farwrite_bench.cluster.control import START_SECONDS, Control
from farwrite_bench.peers.end import End, Setup
from farwrite_bench.peers.loop import ECHO, Opened
from farwrite_bench.peers.peer import PYTHON, Peer
from farwrite_bench.peers.pool import Buffer, Bytes
from farwrite_bench.peers.sides import TwoSides, expect
from farwrite_bench.peers.site import Site

SOCKET = "ray-receiver"
STORE_PER_POOL = 1.5
"""The object store's memory, in pools: a window of the largest payloads, and more."""
VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": ""}
INLINE_BYTES = 100 * 2**10
"""Arguments up to here travel inside the call (Ray's ``max_direct_call_object_size``)."""
TICKS = os.sysconf("SC_CLK_TCK")


class Receiver:
    """The actor. A thread of it follows the command's orders, and Ray calls `take`."""

    def connect(self, path: str) -> int:
        """Connect to the command; return this process's id."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect(path)
        control = Connection(line.detach())
        threading.Thread(target=self._follow, args=(control,), daemon=True).start()
        return os.getpid()

    def _follow(self, control: Connection) -> None:
        from farwrite_bench.peers.side import follow_to_the_end

        follow_to_the_end(control)

    def take(self, payload: Bytes) -> Bytes | None:
        """Read a payload, and return the echo, if there is one."""
        return _ends[0].take(payload)


_ends: list[ReceiverEnd] = []
"""The actor's end, in its process."""


class ReceiverEnd(End):
    """The end in the actor's process."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._done = threading.Event()
        self._left = 0
        _ends[:] = [self]

    def begin(self) -> None:
        """Count the calls of the loop down."""
        self._left = self.loop.transfers
        self._done.clear()

    def take(self, payload: Bytes) -> Bytes | None:
        """Handle a call, in the actor's main thread."""
        assert self.taker is not None
        echo = self.taker.prepare()  # inside its time: nothing calls this side between two calls
        self.taker.take(payload)
        self._left -= 1
        if self._left == 0:
            self._done.set()
        return self.out[echo : echo + self.loop.size] if self.loop.kind == ECHO else None

    def serve(self) -> None:
        """Wait until the actor has taken all payloads."""
        self._done.wait()


class SenderEnd(End):
    """The end in the driver's process, which starts Ray and the actor."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._ray: Any = importlib.import_module("ray")
        store = int(STORE_PER_POOL * setup.out.bytes)
        self._ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=store,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
            _temp_dir=setup.folder,
        )
        self._actor = self._ray.remote(Receiver).remote()
        path = str(Path(setup.folder) / SOCKET)
        self._receiver = self._ray.get(self._actor.connect.remote(path), timeout=START_SECONDS)
        self.settings = (
            f"Ray {self._ray.__version__}: arguments and results of an actor's method; an object"
            f" store of {store / 2**20:.0f} MiB, no dashboard"
        )

    def exchange(self, offset: int) -> Buffer:
        """Call, and return the result."""
        answer: Buffer = self._ray.get(self._call(offset))
        return answer

    def deliver(self, offset: int) -> None:
        """Call, and wait."""
        self._ray.get(self._call(offset))

    def stream(self, offsets: Iterable[int]) -> None:
        """Keep a window of calls under way."""
        calls: deque[Any] = deque()
        for offset in offsets:
            if len(calls) == self.loop.window:
                self._ray.get(calls.popleft())
            calls.append(self._call(offset))
        self._ray.get(list(calls))

    def _call(self, offset: int) -> Any:
        payload = self.out[offset : offset + self.loop.size]
        return self._actor.take.remote(payload)

    def helpers_cpu_seconds(self) -> float:
        """Add up Ray's own processes, and its other workers."""
        return sum(_cpu_seconds(each) for each in _descendants(os.getpid(), self._receiver))

    def close(self) -> None:
        """End Ray, with the actor."""
        self._ray.shutdown()


def _descendants(root: int, but: int) -> list[int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(folder.name)] = int(_fields(int(folder.name))[1])
    found, waiting = [], [root]
    while waiting:
        parent = waiting.pop()
        children = [child for child, of in parents.items() if of == parent]
        waiting += children
        found += [child for child in children if child != but]
    return found


def _cpu_seconds(process: int) -> float:
    with contextlib.suppress(OSError):
        fields = _fields(process)
        return (int(fields[11]) + int(fields[12])) / TICKS
    return 0.0


def _fields(process: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` behind the name, which may have blanks."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _start(site: Site) -> TwoSides:
    listener = site.stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    listener.bind(str(site.folder / SOCKET))
    listener.listen(1)
    sender = site.task("sender", VARIABLES)
    sender.send(site.beginning(SenderEnd, receives=False))
    opened = expect(Opened, sender.receive(START_SECONDS))
    line, _ = listener.accept()  # the actor had connected before
    line.settimeout(None)
    receiver = Control(Connection(line.detach()), f"{site.key}, receiver", site.log("sender"))
    site.stack.callback(receiver.close)
    receiver.send(site.beginning(ReceiverEnd, receives=True))
    also = expect(Opened, receiver.receive(START_SECONDS))
    ground = site.ground
    return TwoSides.connect(receiver, sender, (also, opened), ground.pool_bytes, ground.window)


PEER = Peer(
    "ray",
    "Ray's object store",
    PYTHON,
    _start,
    module="ray",
    install="pip install 'ray>=2.50,<3', or farwrite-bench[ray]",
    copies=lambda size: 1 if size > INLINE_BYTES else None,
    memory=STORE_PER_POOL,
)
