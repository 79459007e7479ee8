"""The emulated worker of asynchronous training: it exchanges parameters, and sleeps to compute.

A step of the worker reads the shared weights, computes, and hands its delta to a helper thread. The
helper pushes the delta while the next step runs. The worker waits for it only if the push before
has not ended when the next delta is ready. So the exposed time of communication is the time of the
step minus the time of the computation (Soft Memory Box poster, section 3).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict

from farwrite import box
from farwrite_bench.box.pages import Floats
from farwrite_bench.box.process import Turn, sleep_until

DELTA = 2.0**-6
"""Every element of every delta. Sums of it are exact, so lost and doubled updates show."""
WEIGHTS = "weights"
ELEMENT = 4
"""Bytes of a float32."""
LEASED_BUFFERS = 34
"""Each of 32 workers may lease another version; one is current, and one comes next."""

Exchange = Callable[[], object]


def emulate(read: Exchange, push: Exchange, compute: float, steps: int) -> list[float]:
    """Run `steps` steps; return the exposed seconds of communication of each.

    Parameters
    ----------
    read : callable
        Fetches the shared weights into this worker's memory.
    push : callable
        Adds this worker's delta to the shared weights; returns when its memory is free again.
    """
    exposed = []
    pushed: Future[object] | None = None
    with ThreadPoolExecutor(1) as helper:
        for _ in range(steps):
            start = time.perf_counter()
            read()
            sleep_until(time.perf_counter() + compute)
            if pushed is not None:
                pushed.result()
            pushed = helper.submit(push)
            exposed.append(max(time.perf_counter() - start - compute, 0.0))
        if pushed is not None:
            pushed.result()
    return exposed


def worker_turn(
    read: Exchange,
    push: Exchange,
    settle: Exchange = lambda: None,
    *,
    counts: Callable[[], dict[str, int]] = dict,
    weights: Callable[[], Floats] | None = None,
) -> Turn:
    """Make the turn of a worker, whose answer is the exposed seconds of each step and `counts`.

    `settle` returns when every push has reached the server.
    """

    def run(moment: float, steps: int, compute: float) -> tuple[list[float], dict[str, int]]:
        sleep_until(moment)
        exposed = emulate(read, push, compute, steps)
        settle()
        return exposed, counts()

    return Turn(run, weights)


@contextlib.contextmanager
def box_worker(place: str, size: int, fabric: str, leases: bool) -> Iterator[Turn]:
    """Accumulate a delta that lies in memory the box reads.

    A worker copies the shared weights into its own memory, where each MiB belongs to one version.
    Or it `leases` them and computes on the server's own memory: a lease keeps one version of all
    weights as it is.
    """
    shape = (size // ELEMENT,)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(box.connect(place, fabrics=[fabric]))
        buffers = LEASED_BUFFERS if leases else 2
        shared = client.create(WEIGHTS, shape, "float32", exclusive=False, buffers=buffers)
        delta = client.array(shape, "float32").array
        delta.fill(DELTA)
        read = _leasing(stack, place, fabric) if leases else _copying(client, shared)
        if leases:
            # The server takes another buffer for the version that comes next; here it does in
            # advance.
            shared.accumulate(delta, scale=0)
        yield worker_turn(
            read,
            lambda: shared.accumulate(delta),
            counts=lambda: asdict(client.stats()),
            weights=shared.read,
        )


def _copying(client: box.Client, shared: box.Segment) -> Exchange:
    copied = client.array(shared.shape, "float32").array
    copied.fill(0)  # its pages are taken before the first read
    return lambda: shared.read(copied, consistent="chunk")


def _leasing(stack: contextlib.ExitStack, place: str, fabric: str) -> Exchange:
    # The server takes the requests of one client in order: those of this one wait for no delta.
    reader = stack.enter_context(box.connect(place, fabrics=[fabric]))
    weights = reader.attach(WEIGHTS)
    lease = weights.lease()
    stack.callback(lambda: lease.close())

    def read() -> None:
        """End the lease of the step before, and take one on the newest version."""
        nonlocal lease
        lease.close()
        lease = weights.lease()

    return read
