"""NIXL: writes with a notification, by its UCX backend."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from itertools import cycle, islice
from typing import Any

from farwrite_bench.peers.end import End, Setup
from farwrite_bench.peers.loop import Buffer
from farwrite_bench.peers.peer import PYTHON, Peer
from farwrite_bench.peers.sides import in_two_processes

MODULE = "nixl_cu12"
DATA, ACKNOWLEDGEMENT = b"d", b"a"
BACKEND = "UCX"


class _NixlEnd(End):
    """An agent. Requests are prepared before a loop, and posted again in rotation."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        api: Any = importlib.import_module(f"{MODULE}._api")
        # Without the thread, this one makes all progress: with it, four threads share two cores.
        config = api.nixl_agent_config(enable_prog_thread=False, backends=[BACKEND])
        self._agent: Any = api.nixl_agent(f"{'receiver' if setup.receives else 'sender'}", config)
        for memory in (self.out, self.into):
            self._agent.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")
        self._lists: list[Any] = []
        self._requests: list[Any] = []
        tls = os.environ.get("UCX_TLS", "its default")
        self.settings = (
            f"NIXL {importlib.metadata.version('nixl-cu12')}: prepared writes with a notification,"
            f" backend {BACKEND}, no progress thread, UCX_TLS {tls}; waits poll"
        )

    @property
    def address(self) -> Any:
        """The agent's metadata, and where payloads land."""
        return self._agent.get_agent_metadata(), self.into.ctypes.data

    def connect(self, other: Any) -> None:
        metadata, self._remote_into = other
        name = self._agent.add_remote_agent(metadata)
        self._other = name.decode() if isinstance(name, bytes) else name

    def begin(self) -> None:
        """Prepare a request for each place."""
        self._free()
        self._data = self._acknowledgements = 0
        self._under_way: list[Any] = []
        loop = self.loop
        if self.setup.receives and not loop.echoes:
            return
        count = min(loop.transfers, loop.places)
        local, remote = (
            [(base + at, loop.size, 0) for at in islice(loop.offsets(), count)]
            for base in (self.out.ctypes.data, self._remote_into)
        )
        agent = self._agent
        self._lists = [
            agent.prep_xfer_dlist("NIXL_INIT_AGENT", local, "DRAM"),
            agent.prep_xfer_dlist(self._other, remote, "DRAM"),
        ]
        self._requests = [
            agent.make_prepped_xfer("WRITE", self._lists[0], [i], self._lists[1], [i], DATA)
            for i in range(count)
        ]
        self._next_request = cycle(self._requests)

    def send(self, offset: int) -> None:
        """Post the next request, which is prepared for the place at `offset`."""
        request = next(self._next_request)
        state = self._agent.transfer(request)
        if state == "PROC":
            self._under_way.append(request)
        elif state != "DONE":
            raise RuntimeError(f"NIXL cannot post a write: {state}")

    def receive(self) -> Buffer:
        while self._data == 0:
            self._progress()
        self._data -= 1
        at = next(self.arrivals)
        return self.into[at : at + self.loop.size]

    def acknowledge(self) -> None:
        self._agent.send_notif(self._other, ACKNOWLEDGEMENT)

    def await_acknowledgement(self) -> None:
        while self._acknowledgements == 0:
            self._progress()
        self._acknowledgements -= 1

    def serve(self) -> None:
        """Serve, and then see the last echo off."""
        super().serve()
        while self._under_way:
            self._progress()

    def _progress(self) -> None:
        if self._under_way:  # a write's notification leaves when its end is seen here
            self._under_way = [each for each in self._under_way if not self._ended(each)]
        for messages in self._agent.get_new_notifs().values():
            for message in messages:
                if message == DATA:
                    self._data += 1
                else:
                    self._acknowledgements += 1

    def _ended(self, request: Any) -> bool:
        state = self._agent.check_xfer_state(request)
        if state not in ("DONE", "PROC"):
            raise RuntimeError(f"a write of NIXL failed: {state}")
        return bool(state == "DONE")

    def _free(self) -> None:
        for request in self._requests:
            self._agent.release_xfer_handle(request)
        for each in self._lists:
            self._agent.release_dlist_handle(each)
        self._requests, self._lists = [], []

    def close(self) -> None:
        """Free the requests; the agent goes with the process."""
        self._free()


PEER = Peer(
    "nixl",
    "NIXL",
    PYTHON,
    in_two_processes(_NixlEnd),
    module=MODULE,
    install="pip install --no-deps 'nixl-cu12>=1.5,<2', or farwrite-bench[nixl], which also takes"
    " PyTorch with CUDA (5 GB)",
    copies=lambda size: 1 if size >= 2**16 else None,
)
