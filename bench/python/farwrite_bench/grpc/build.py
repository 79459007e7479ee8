"""Finds the programs that the benchmark runs: unpacks gRPC in a checkout, and compiles its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from farwrite.errors import NotFound
from farwrite_bench.box import openmpi
from farwrite_bench.cache import cache_folder

SOURCES = Path(__file__).parent / "program"
SYSTEM = (Path("/usr"), Path("/usr/local"))
"""Where gRPC may be installed."""
FETCH = "tools/fetch_grpc.sh"
QPS_FOLDER, QPS_PROGRAMS = "build/grpc/programs", ("qps_json_driver", "qps_worker")
FETCH_SECONDS, BUILD_SECONDS = 600, 900
HINT = (
    "on Debian 12, `apt install g++ cmake libgrpc++-dev protobuf-compiler-grpc`; in a checkout of"
    " Farwrite, `tools/fetch_grpc.sh` unpacks gRPC without root"
)
Found = TypeVar("Found")


@dataclass(frozen=True)
class Tools:
    """The programs that a run needs."""

    payloads: Path = Path()
    """The gRPC program of this benchmark."""
    openmpi: openmpi.OpenMpi | None = None
    qps: Path | None = None
    """The folder of gRPC's own benchmark."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a program is missing, by its name here: its rows are skipped."""


def find_tools(*, mpi: bool, qps: bool, must_have_qps: bool) -> Tools:
    """Compile the program of this benchmark, and find OpenMPI and gRPC's own benchmark.

    Raises
    ------
    NotFound
        If gRPC is missing, or its own benchmark that the run must have.
    """
    missing: dict[str, str] = {}

    def look(name: str, find: Callable[[], Found]) -> Found | None:
        try:
            return find()
        except NotFound as error:
            if name == "qps" and must_have_qps:
                raise
            missing[name] = str(error)
            return None

    found_qps = look("qps", find_qps) if qps else None
    found_mpi = look("openmpi", openmpi.find) if mpi else None
    return Tools(build(), found_mpi, found_qps, missing)


def build(fetch: bool = True) -> Path:
    """Return the compiled program; with `fetch`, a checkout unpacks gRPC if it is missing.

    Raises
    ------
    NotFound
        If gRPC, CMake or a compiler is missing, or the compilation fails.
    """
    checkout = next(_checkouts(), None)
    prefix = Path(os.environ.get("FARWRITE_DEBS") or (checkout or Path()) / ".cache/debs") / "usr"
    if not _has_grpc(prefix):
        if checkout is None or not fetch:
            raise NotFound(f"bench grpc: there is no gRPC for C++ here; {HINT}")
        print("farwrite bench: unpacking gRPC into .cache (about a minute, once)", file=sys.stderr)
        _run([FETCH], checkout, FETCH_SECONDS, "gRPC could not be fetched")
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if cmake is None:
        raise NotFound(f"bench grpc: there is no cmake; {HINT}")
    folder = checkout / "build/grpc_bench" if checkout else cache_folder() / "grpc_bench"
    folder.mkdir(parents=True, exist_ok=True)
    executable = folder / "grpc_payloads"
    if not executable.exists():
        print("farwrite bench: compiling the gRPC program (about a minute, once)", file=sys.stderr)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        what = "the gRPC program could not be compiled"
        configure = [cmake, "-S", str(SOURCES), "-B", str(folder), f"-DCMAKE_PREFIX_PATH={prefix}"]
        _run(configure, folder, BUILD_SECONDS, what)
        _run([cmake, "--build", str(folder), "-j", "2"], folder, BUILD_SECONDS, what)
    return executable


def find_qps() -> Path:
    """Return the folder of gRPC's own benchmark, which a checkout builds.

    Raises
    ------
    NotFound
        If it is not built.
    """
    for checkout in _checkouts():
        folder = checkout / QPS_FOLDER
        if all((folder / name).exists() for name in QPS_PROGRAMS):
            return folder
    raise NotFound(
        "bench grpc: qps needs gRPC's own benchmark programs, which are not built here; in a"
        " checkout of Farwrite, type: make grpc-programs"
    )


def _has_grpc(prefix: Path) -> bool:
    wanted = ("include/grpcpp/grpcpp.h", "bin/grpc_cpp_plugin", "bin/protoc")
    return all(any((root / each).exists() for root in (prefix, *SYSTEM)) for each in wanted)


def _checkouts() -> Iterator[Path]:
    """Yield the checkout of the working folder and that of the virtual environment, if any."""
    for candidate in (Path.cwd(), *Path.cwd().parents, Path(sys.prefix).parent):
        if (candidate / FETCH).exists():
            yield candidate


def _run(command: Sequence[str], folder: Path, seconds: int, what: str) -> None:
    try:
        subprocess.run(
            list(command),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise NotFound(f"bench grpc: {what} within {seconds} s; {HINT}") from None
    except subprocess.CalledProcessError as error:
        tail = "".join(f"\n    {line[:300]}" for line in error.stdout.splitlines()[-12:])
        raise NotFound(f"bench grpc: {what}; {HINT}; the end of `{command[0]}`:{tail}") from None
