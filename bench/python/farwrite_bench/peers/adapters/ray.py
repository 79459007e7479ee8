"""Ray's object store: an actor's method takes each payload, which it reads in the store."""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import threading
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from farwrite_bench.cluster.child import Failure
from farwrite_bench.cluster.control import START_SECONDS, Control
from farwrite_bench.peers import side
from farwrite_bench.peers.end import CallingEnd, Setup
from farwrite_bench.peers.loop import Buffer, Bytes
from farwrite_bench.peers.peer import PYTHON, Peer
from farwrite_bench.peers.sides import Site, TwoSides

SOCKET = "ray-receiver"
STORE_PER_POOL = 1.5
"""The object store's memory, in pools: a window of the largest payloads, and more."""
VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": ""}
INLINE_BYTES = 100 * 2**10
"""Arguments up to here travel inside the call (Ray's ``max_direct_call_object_size``)."""
TICKS = os.sysconf("SC_CLK_TCK")


class ReceiverEnd(CallingEnd):
    """The end in the actor's process."""

    latest: ReceiverEnd
    """The actor's end, in its process."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        ReceiverEnd.latest = self


class Actor:
    """The receiver. A thread of it follows the command's orders, and Ray calls `take`."""

    def connect(self, path: str) -> int:
        """Connect to the command; return this process's id."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect(path)
        control = Connection(line.detach())
        threading.Thread(target=self._follow, args=(control,), daemon=True).start()
        return os.getpid()

    def _follow(self, control: Connection) -> None:
        try:
            side.main(control)
        except EOFError:
            pass  # the command has what it wanted
        except Exception as error:
            traceback.print_exc()
            with contextlib.suppress(OSError):
                control.send(Failure(f"{type(error).__name__}: {error}"))

    def take(self, payload: Bytes) -> Bytes | None:
        """Read a payload, and return the echo, if there is one."""
        end = ReceiverEnd.latest
        echo = end.take(payload)
        return None if echo is None else end.out[echo : echo + end.loop.size]


class _SenderEnd(CallingEnd):
    """The end in the driver's process, which starts Ray and the actor."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._ray: Any = importlib.import_module("ray")
        store = int(STORE_PER_POOL * setup.pools.out.bytes)
        self._ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=store,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
            _temp_dir=setup.folder,
        )
        self._actor = self._ray.remote(Actor).remote()
        path = str(Path(setup.folder) / SOCKET)
        self._receiver = self._ray.get(self._actor.connect.remote(path), timeout=START_SECONDS)
        self.settings = (
            f"Ray {self._ray.__version__}: arguments and results of an actor's method; an object"
            f" store of {store / 2**20:.0f} MiB, no dashboard"
        )

    def call(self, offset: int) -> Any:
        return self._actor.take.remote(self.out[offset : offset + self.loop.size])

    def result(self, call: Any) -> Buffer:
        answer: Buffer = self._ray.get(call)
        return answer

    def helpers_cpu_seconds(self) -> float:
        """Add up Ray's own processes, and its other workers."""
        return sum(_cpu_seconds(each) for each in _descendants(os.getpid(), self._receiver))

    def close(self) -> None:
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
    site.open(sender, _SenderEnd, receives=False)
    sender_opened = sender.receive(START_SECONDS)
    line, _ = listener.accept()  # the actor had connected before
    name, log = f"{site.key}, receiver", site.log("sender")
    receiver = Control(Connection(line.detach()), name, log, "an actor of Ray")
    site.stack.callback(receiver.close)
    site.open(receiver, ReceiverEnd, receives=True)
    opened = (receiver.receive(START_SECONDS), sender_opened)
    return TwoSides(receiver, sender, opened, site.ground.plan.pool_bytes)


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
