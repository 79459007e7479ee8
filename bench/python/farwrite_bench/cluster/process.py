"""The parent's side: starts children, ends them, and finds ports for them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.errors import InvalidArgument, ResourceExhausted
from farwrite_bench.cluster import child
from farwrite_bench.cluster.control import Control, status_of

if TYPE_CHECKING:
    from typing import Self

END_SECONDS = 5.0
DYING_SECONDS = 1.0
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "GRPC_VERBOSITY": "ERROR",
    "CUDA_VISIBLE_DEVICES": "-1",  # the same work on machines with and without a GPU
    "no_grpc_proxy": "127.0.0.1,localhost",
}
"""Variables that are added to the environment of every child."""
MALLOC = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(2**26),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""glibc's best settings for large tensors, for every process of every way: memory is kept and used
again, in huge pages. By default a tensor above 32 MiB is mapped anew in each step, and its page
faults take longer than its computation."""
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
PORTS_TRIED = 500
"""Most ports that one search tries."""


class Task(Control):
    """A child process that runs the function ``main`` of a module with a control pipe.

    Parameters
    ----------
    name : str
        Name in messages.
    module : str
        The module.
    environment : mapping
        Variables that are added to the environment of this process.
    log : Path
        File for the child's standard output and error.
    first : callable, optional
        What the child calls before it has a second thread. It can be pickled.
    """

    context: Any = multiprocessing.get_context("spawn")
    """How the process starts."""

    def __init__(
        self,
        name: str,
        module: str,
        environment: Mapping[str, str],
        log: Path,
        *,
        first: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        self._prepare(log)
        ours, theirs = Pipe()
        super().__init__(ours, f"task {name}", log, f"{module}.main of {sys.executable}")
        with theirs, added_variables({**QUIET, **environment}):
            arguments = (module, dict(environment), str(log), theirs, first)
            self._process = self.context.Process(target=child.begin, args=arguments, daemon=True)
            self._process.start()

    def _prepare(self, log: Path) -> None:
        """Start what the process starts from."""

    def _status(self) -> str:
        self._process.join(DYING_SECONDS)  # its pipe closes a moment before it ends
        return "" if self._process.exitcode is None else status_of(self._process.exitcode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        self._process.join(END_SECONDS if kind is None else 0.2)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()


@contextlib.contextmanager
def added_variables(added: Mapping[str, str]) -> Iterator[None]:
    """Add variables to the environment, which processes that start in the block inherit."""
    before = dict(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _port_range() -> Sequence[int]:
    """Return the ports of FARWRITE_BENCH_PORTS, or nothing if it is not set."""
    named = os.environ.get("FARWRITE_BENCH_PORTS", "")
    if not named:
        return ()
    ends = re.fullmatch(r"(\d+)-(\d+)", named)
    if ends is None or not 1024 <= int(ends[1]) <= int(ends[2]) <= 65535:
        raise InvalidArgument(
            f"FARWRITE_BENCH_PORTS={named!r} is not a range of ports from 1024 to 65535; use a"
            " range such as 20000-20999"
        )
    return range(int(ends[1]), int(ends[2]) + 1)


def _ports_the_kernel_leaves(count: int) -> Sequence[int]:
    lowest, highest = map(int, PORT_RANGE.read_text(encoding="ascii").split())
    others = [*range(max(lowest // 2, 1024), lowest), *range(highest + 1, 65536)]
    return others if len(others) > count else range(1024, 65536)


def free_ports(count: int) -> list[int]:
    """Find `count` ports of this machine that are free now.

    The environment variable FARWRITE_BENCH_PORTS, such as ``20000-20999``, limits the search. Two
    programs that search at the same time need different ranges. Otherwise both may find the same
    port before either listens there. Without the variable the search leaves out the ports that the
    kernel assigns, if there are others: any program may be given one of those before the task's
    server listens there.

    Raises
    ------
    InvalidArgument
        If the value of the variable is not a range of ports.
    ResourceExhausted
        If the search finds fewer free ports.
    """
    candidates = _port_range() or _ports_the_kernel_leaves(count)
    found: list[int] = []
    for port in random.sample(candidates, k=min(PORTS_TRIED, len(candidates))):
        if len(found) == count:
            break
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    if len(found) < count:
        raise ResourceExhausted(
            f"find {count} free ports: the search found {len(found)}; end programs that listen on"
            " ports"
        )
    return found


def free_addresses(count: int) -> list[str]:
    """Find `count` free ports, and return them as addresses such as "127.0.0.1:20000"."""
    return [f"127.0.0.1:{port}" for port in free_ports(count)]
