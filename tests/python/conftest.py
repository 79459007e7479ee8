"""Fixtures, and the rule that no test leaves anything behind."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import multiprocessing.resource_tracker
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import farwrite as fw
import warm_python
from cuda_double import REAL, Double, library
from processes import PeerProcess

sys.path.append(str(Path(__file__).parents[2] / "tools"))
from leftovers import held_by_others, shared_memory_files

# A run in the background of a script may have been started with SIGINT ignored, and one under nohup
# with SIGHUP, and would hand that on to the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# multiprocessing keeps this helper process for the life of the session: not a leak.
multiprocessing.resource_tracker.ensure_running()

# TensorFlow imports Keras 3 when it is imported, and Keras 3 imports matplotlib and scikit-learn
# where they are installed: 1.4 s of a processor to begin and to end. No test uses `tf.keras`.
os.environ["TF_USE_LEGACY_KERAS"] = "1"

# Workers that search for free ports at the same time search in different ranges.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    first = 17_000 + 1_000 * int(worker.removeprefix("gw"))
    os.environ["FARWRITE_BENCH_PORTS"] = f"{first}-{first + 999}"


def _children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):  # that thread has ended
            found.update(task.read_text().split())
    return found


def _descriptors() -> set[tuple[str, str]]:
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add((descriptor, os.readlink(f"/proc/self/fd/{descriptor}")))
    # matplotlib keeps its fonts open.
    fonts = "/matplotlib/mpl-data/fonts/"
    return {each for each in found if not each[1].startswith("/proc/") and fonts not in each[1]}


def _holdings() -> dict[str, set[Any]]:
    return {
        "child processes": set(_children()),
        "files in /dev/shm": set(shared_memory_files()),
        "file descriptors": set(_descriptors()),
        "threads": {thread.name for thread in threading.enumerate()},
    }


def _of_another_worker(process: Path) -> bool:
    """Whether another pytest worker of this run is, or started, the process."""
    mine = os.environ.get("PYTEST_XDIST_WORKER")
    if mine is None or int(process.name) == os.getpid():
        return False
    parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
    if int(parent) == os.getppid():
        return True
    started_by = re.search(rb"PYTEST_XDIST_WORKER=(\w+)", (process / "environ").read_bytes())
    return started_by is not None and started_by[1].decode() != mine


@pytest.fixture(scope="session", autouse=True)
def open_until_the_end() -> Iterator[contextlib.ExitStack]:
    """Hold what lives as long as the session, so that no test is told that it left it behind."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(warm_python.with_numpy()))
        yield stack


@pytest.fixture(scope="module", autouse=True)
def process_that_imported_tensorflow(
    request: pytest.FixtureRequest, open_until_the_end: contextlib.ExitStack
) -> None:
    """Start the process that forks those of the plug-in's tests, before the first of them."""
    plugin = sys.modules.get("cluster")
    if plugin is None or request.path.parent.name != "tensorflow" or plugin.FORKERS:
        return
    if request.node.get_closest_marker("namespaces") is None:  # those have one of their own
        open_until_the_end.enter_context(plugin.forker())


def _busy_seconds() -> float:
    return sum(os.times()[:4])  # of this process, and of the children that it waited for


@pytest.fixture(autouse=True)
def busy_seconds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Record a test's processor time: what is left of its duration it waited (tools/times.py)."""
    before = _busy_seconds()
    yield
    request.node.user_properties.append(("busy_seconds", f"{_busy_seconds() - before:.3f}"))


SEARCHED_WITH = pytest.StashKey[int]()


def _collect_garbage_between_tests(session: pytest.Session) -> None:
    """Collect garbage; after an import, keep what lives now out of all later searches.

    A search goes through every object that is not kept out: a hundred thousand of pytest's and of
    the modules', twice as many with PyTorch, which took longer than most tests.
    """
    gc.collect()
    if session.stash.get(SEARCHED_WITH, 0) != len(sys.modules):
        session.stash[SEARCHED_WITH] = len(sys.modules)
        gc.freeze()


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process, a file, a descriptor or a thread."""
    _collect_garbage_between_tests(request.session)
    before = _holdings()
    yield
    request.node.funcargs.clear()  # pytest itself must not keep what fixtures gave
    give_up = time.monotonic() + 30
    while True:
        gc.collect()
        left = {kind: held - before[kind] for kind, held in _holdings().items()}
        left["files in /dev/shm"] -= held_by_others(left["files in /dev/shm"], _of_another_worker)
        if not any(left.values()):
            return
        if time.monotonic() > give_up:
            pytest.fail(f"left behind: { {kind: held for kind, held in left.items() if held} }")
        time.sleep(0.02)


@pytest.fixture
def example_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Lock port 7777, which the examples and the pages name, against pytest's other workers."""
    with (tmp_path_factory.getbasetemp().parent / "port_7777.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass
class Pair:
    """Two devices of this process, with a channel between them: `near` belongs to `left`."""

    left: fw.Device
    right: fw.Device
    near: fw.Channel
    far: fw.Channel


def connected(left: fw.Device, right: fw.Device) -> tuple[fw.Channel, fw.Channel]:
    """Open a channel from `left` to `right` and return both ends."""
    with ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(right.accept, 20)
        return left.connect(right.endpoint, 20), accepted.result()


@pytest.fixture
def make_pair() -> Iterator[Callable[..., Pair]]:
    """Make pairs of devices with the given options, closed after the test."""
    with contextlib.ExitStack() as stack:

        def make(**options: object) -> Pair:
            left = stack.enter_context(fw.Device(**options))  # type: ignore[arg-type]
            right = stack.enter_context(fw.Device(**options))  # type: ignore[arg-type]
            return Pair(left, right, *connected(left, right))

        yield make


@pytest.fixture
def pair(make_pair: Callable[..., Pair]) -> Pair:
    """Two connected devices of this process."""
    return make_pair()


@pytest.fixture
def device() -> Iterator[fw.Device]:
    """A device of this process."""
    with fw.Device() as opened:
        yield opened


@dataclass
class Link:
    """A device of this process, its channel to a peer process, and that process."""

    device: fw.Device
    channel: fw.Channel
    peer: PeerProcess


@pytest.fixture
def make_link() -> Iterator[Callable[..., Link]]:
    """Make a device and a peer process connected to it, ended after the test."""
    with contextlib.ExitStack() as stack:

        def make(**options: object) -> Link:
            device = stack.enter_context(fw.Device(**options))  # type: ignore[arg-type]
            peer = stack.enter_context(PeerProcess(device.endpoint))
            return Link(device, device.accept(30), peer)

        yield make


@pytest.fixture
def link(make_link: Callable[..., Link]) -> Link:
    """A peer process connected to a device of this one."""
    return make_link()


@pytest.fixture(params=["shm", "tcp"])
def box_server(request: pytest.FixtureRequest) -> Iterator[fw.box.Server]:
    """A box that this process serves, over each fabric."""
    options = {"pool": "4M", "segment_bytes": 4 << 20, "fabrics": [request.param]}
    with fw.box.serve(memory="64M", **options) as server:
        yield server


@pytest.fixture
def box(box_server: fw.box.Server) -> Iterator[fw.box.Client]:
    """A client of `box_server`."""
    with box_server.connect(segment_bytes=4 << 20) as client:
        yield client


@pytest.fixture(scope="session")
def driver() -> Double | None:
    """The double, opened in this process; None with a real driver."""
    if not REAL:
        os.environ["FARWRITE_CUDA_LIBRARY"] = str(library())
        os.environ["CUDA_DOUBLE_DELAY_US"] = "200"
        os.environ["CUDA_DOUBLE_GPUS"] = "2"
    with fw.Device(listen="127.0.0.1:0") as device:
        device.allocate(1, kind="cuda:0")  # the driver keeps descriptors of its own
    return None if REAL else Double(library())


@pytest.fixture
def double(driver: Double | None) -> Iterator[Double]:
    if driver is None:
        pytest.skip("needs the test double: FARWRITE_TEST_GPU is set")
    yield driver
    driver.resume()
    driver.fail("")


@pytest.fixture
def cuda(driver: Double | None) -> None:
    """A driver that was opened."""
