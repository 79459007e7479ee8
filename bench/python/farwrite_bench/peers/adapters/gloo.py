"""gloo, by torch.distributed: sends and posted receives of two ranks."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from farwrite_bench.peers.end import PostingEnd, Setup
from farwrite_bench.peers.loop import Bytes
from farwrite_bench.peers.peer import PYTHON, Peer
from farwrite_bench.peers.sides import in_two_processes

RECEIVER, SENDER = 0, 1


class _GlooEnd(PostingEnd):
    """A rank of a process group."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._torch: Any = importlib.import_module("torch")
        self._dist: Any = importlib.import_module("torch.distributed")
        self._torch.set_num_threads(1)
        self._other = SENDER if setup.receives else RECEIVER
        self.settings = (
            f"PyTorch {self._torch.__version__}, gloo over the loopback; isend, and irecv posted"
            " ahead; one thread of PyTorch"
        )

    def connect(self, other: Any) -> None:
        """Make the group; both ranks meet in a file."""
        self._dist.init_process_group(
            "gloo",
            store=self._dist.FileStore(f"{self.setup.folder}/gloo", 2),
            rank=RECEIVER if self.setup.receives else SENDER,
            world_size=2,
        )

    def post_send(self, payload: Bytes, tag: int) -> Any:
        return self._dist.isend(self._torch.from_numpy(payload), self._other, tag=tag)

    def post_receive(self, payload: Bytes, tag: int) -> Any:
        return self._dist.irecv(self._torch.from_numpy(payload), self._other, tag=tag)

    def wait(self, request: Any) -> None:
        request.wait()

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._dist.destroy_process_group()


PEER = Peer(
    "gloo",
    "gloo (torch.distributed)",
    PYTHON,
    in_two_processes(_GlooEnd, {"GLOO_SOCKET_IFNAME": "lo"}),
    module="torch",
    install="pip install 'torch>=2.8', or farwrite-bench[gloo]",
    copies=lambda _: 2,
)
