"""UCX, in the C++ loops of its own program (`bench/ucx`), which is compiled where UCX is."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from farwrite.errors import NotFound
from farwrite_bench.cache import cache_folder
from farwrite_bench.peers.peer import BANDWIDTH, CPP, LATENCY, Figures, Peer
from farwrite_bench.peers.plan import WINDOW
from farwrite_bench.peers.sides import Site
from farwrite_bench.program import Program

WAYS = {"tag": "tag", "putflag": "put+flag"}
"""Tagged messages; and a put, a fence and the put of a counter that the receiver polls."""
ZERO_COPY_BYTES = 2**16
"""From here on, a tagged message is copied once, by the kernel."""
TUNED = {"UCX_TLS": "sm,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
"""Settings of UCX unless the environment has others: its shared memory, and copies by the kernel
(cma), without the look for adapters and GPUs."""
SOURCES = Path(__file__).parents[1] / "ucx_program"
HINT = "pip install 'libucx-cu12>=1.22,<2', or farwrite-bench[ucx]; it needs no GPU"
BUILD_SECONDS = 300


class UcxLoops:
    """The running program. Each size takes the better of the two ways, in either loop."""

    def __init__(self, program: Program) -> None:
        identity = program.answer()
        self._program = program
        self._ways = dict.fromkeys((LATENCY, BANDWIDTH), next(iter(WAYS)))
        self._seed = 0
        chosen = ", ".join(f"{name}={value}" for name, value in settings().items())
        self.settings = f"UCX {identity['version']}, {identity['library']}; {chosen}"

    @property
    def variant(self) -> str:
        """The ways that are measured."""
        return "; streams ".join(dict.fromkeys(WAYS[way] for way in self._ways.values()))

    def prepare(self, size: int) -> None:
        """Choose the better way."""
        few = 8 if size >= 2**20 else 200
        seconds: dict[str, dict[str, float]] = {LATENCY: {}, BANDWIDTH: {}}
        for way in (*WAYS, *WAYS):  # the first turn of each takes memory for the first time
            self._ways = dict.fromkeys(seconds, way)
            seconds[LATENCY][way] = statistics.median(self.run(LATENCY, size, few).samples_us)
            seconds[BANDWIDTH][way] = self.run(BANDWIDTH, size, few).seconds
        self._ways = {kind: min(took, key=took.__getitem__) for kind, took in seconds.items()}

    def run(self, kind: str, size: int, transfers: int) -> Figures:
        """Make the transfers of a loop."""
        self._seed += 1
        window = 1 if kind == LATENCY else WINDOW
        order = (self._ways[kind], kind, size, transfers, window, self._seed)
        return Figures(**self._program.ask(*order))


def settings() -> dict[str, str]:
    """Return every UCX_ variable of a run: the tuned ones, below those of the environment."""
    given = {name: value for name, value in os.environ.items() if name.startswith("UCX_")}
    return {**TUNED, **given}


def environment(library: Path) -> dict[str, str]:
    """Return the variables of the program."""
    # Without it, a libucp of the system takes the place of the one that was found.
    paths = [str(library / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {**settings(), "LD_LIBRARY_PATH": ":".join(paths)}


def find_library() -> Path:
    """Return the folder of the installed wheel, with its `include` and `lib`.

    Raises
    ------
    NotFound
        If it is not installed, or is not whole.
    """
    found = importlib.util.find_spec("libucx")
    if found is None or found.origin is None:
        raise NotFound(f"bench peers: UCX is not installed in this Python environment; {HINT}")
    folder = Path(found.origin).parent
    if not (folder / "include/ucp/api/ucp.h").exists() or not (folder / "lib/libucp.so").exists():
        raise NotFound(f"bench peers: {folder} has no headers or no libucp.so; {HINT}")
    return folder


def build(library: Path) -> Path:
    """Return the program for this library; compile it if its sources or the library changed.

    Raises
    ------
    NotFound
        If there is no C++ compiler, or the compilation fails.
    """
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise NotFound("bench peers: UCX needs a C++20 compiler; install g++, or set CXX")
    lib = library / "lib"
    command = [
        *(compiler, "-O2", "-DNDEBUG", "-std=c++20"),
        *(f"-I{library / 'include'}", f"-I{SOURCES}", *map(str, sorted(SOURCES.glob("*.cc")))),
        *(f"-L{lib}", f"-Wl,-rpath,{lib}", "-lucp", "-lucs"),
    ]
    key = hashlib.sha256("\0".join(command).encode())
    for source in (*sorted(SOURCES.iterdir()), lib / "libucp.so"):
        key.update(source.read_bytes())
    folder = cache_folder() / "ucx_p2p"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / key.hexdigest()[:16]
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            print("farwrite bench: compiling the UCX program (seconds, once)", file=sys.stderr)
            unfinished = program.with_suffix(".new")
            _compile([*command, "-o", str(unfinished)])
            unfinished.rename(program)
    return program


def _compile(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFound(f"bench peers: the UCX program could not be compiled: {error}") from None
    if done.returncode != 0:
        tail = "".join(f"\n    {line[:300]}" for line in done.stderr.splitlines()[-12:])
        raise NotFound(f"bench peers: the UCX program could not be compiled; its errors:{tail}")


def _start(site: Site) -> UcxLoops:
    library = find_library()
    command = [str(build(library)), str(site.ground.plan.pool_bytes)]
    program = Program("bench peers", "the UCX program", command, environment(library))
    return UcxLoops(site.stack.enter_context(program))


PEER = Peer(
    "ucx",
    "UCX",
    CPP,
    _start,
    module="libucx",
    install=HINT,
    copies=lambda size: 1 if size >= ZERO_COPY_BYTES else None,
    ahead="its put is a store of the bytes and a flag that is polled; Farwrite checks the region's"
    " grant and puts a record into the lane's ring",
    memory=1.5,
)
