"""Finds Debian's OpenMPI, or unpacks it without root, and starts programs under it.

``tools/fetch_debs.sh`` unpacks the packages into the ``.cache`` of a checkout. The variables in
`OpenMpi.environment` name that place to OpenMPI. ``mpi4py`` comes from PyPI; its wheel loads the
first ``libmpi.so.40`` that the loader finds.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from farwrite.errors import NotFound, PeerDead
from farwrite_bench.cluster.child import Failure, end_with_parent
from farwrite_bench.cluster.control import START_SECONDS, Control, end_of, ran, status_of

PACKAGE = "openmpi-bin:usr/bin/orterun"
FOLDER = Path(".cache/openmpi")
"""The folder in a checkout. It has nothing else, because the loader searches it first."""
OPTIONS = (
    "--allow-run-as-root",
    "--oversubscribe",
    *("--bind-to", "none"),
    *("--mca", "pml", "ob1"),
    *("--mca", "btl", "vader,self"),
    *("--mca", "btl_vader_single_copy_mechanism", "cma"),
    *("--mca", "plm", "isolated"),
)
"""ob1 over shared memory, with the kernel's copy from process to process (CMA). `isolated` starts
no ssh."""
YIELDING = (*OPTIONS, "--mca", "mpi_yield_when_idle", "1")
"""A rank that waits inside MPI yields its processor to the ranks that compute."""
POLLING = (*OPTIONS, "--mca", "mpi_yield_when_idle", "0")
"""A rank that waits keeps its processor: for two ranks on two processors."""
FETCH_SECONDS = 300
DYING_SECONDS = 5.0
"""How long an error waits for the exit status of the launcher of a rank that ended."""
END_SECONDS = 10.0
"""Between the ways to end the launcher."""
HINT = (
    "run `tools/fetch_debs.sh --into $PWD/.cache/openmpi openmpi-bin:usr/bin/orterun` in a checkout"
    " of Farwrite on Debian, or install openmpi-bin; and `pip install mpi4py`"
)


@dataclass(frozen=True)
class OpenMpi:
    """An OpenMPI that can start programs."""

    launcher: Path
    environment: dict[str, str] = field(default_factory=dict)
    """Variables of the launcher and of everything it starts."""
    options: tuple[str, ...] = YIELDING

    def command(self, ranks: int, *program: str) -> list[str]:
        """Return the command line that starts `program` in `ranks` processes."""
        return [str(self.launcher), *self.options, "-n", str(ranks), *program]

    def settings(self) -> str:
        """Describe version and options in one line."""
        shown = subprocess.run(
            [str(self.launcher), "--version"],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        ).stdout.splitlines()
        return f"{shown[0] if shown else 'OpenMPI'}: {' '.join(self.options)}"


def find() -> OpenMpi:
    """Return the OpenMPI of this machine, or that of this checkout, which is unpacked first.

    Raises
    ------
    NotFound
        If there is none and it cannot be fetched, or mpi4py is missing. The message has the
        commands that help.
    """
    if importlib.util.find_spec("mpi4py") is None:
        raise NotFound(f"bench box: no MPI to compare with: Python has no mpi4py; {HINT}")
    installed = shutil.which("orterun")
    if installed is not None:
        return OpenMpi(Path(installed))
    for checkout in _checkouts():
        if not (checkout / FOLDER / "usr/bin/orterun").exists():
            _fetch(checkout)
        found = unpacked(checkout / FOLDER)
        if found is not None:
            return found
    raise NotFound(f"bench box: no MPI to compare with: OpenMPI is not installed; {HINT}")


def unpacked(folder: Path) -> OpenMpi | None:
    """Return the OpenMPI that was unpacked into `folder`, if there is one."""
    launcher = folder / "usr/bin/orterun"
    plugins = next(folder.glob("usr/lib/*/openmpi/lib"), None)
    if plugins is None or not launcher.exists():
        return None
    libraries = plugins.parent.parent
    before = os.environ.get("LD_LIBRARY_PATH")
    return OpenMpi(
        launcher,
        {
            "OPAL_PREFIX": str(folder / "usr"),
            "OPAL_LIBDIR": str(plugins),
            "OPAL_SYSCONFDIR": str(folder / "etc/openmpi"),
            "PMIX_INSTALL_PREFIX": str(libraries / "pmix2"),
            "PMIX_MCA_pcompress_base_silence_warning": "1",
            "LD_LIBRARY_PATH": f"{libraries}:{before}" if before else str(libraries),
        },
    )


def _checkouts() -> Iterator[Path]:
    """Yield the checkout of the working folder and that of the virtual environment, if any."""
    candidates = [Path.cwd(), *Path.cwd().parents, Path(sys.prefix).parent]
    for candidate in dict.fromkeys(candidates):
        if (candidate / "tools/fetch_debs.sh").exists():
            yield candidate


def _fetch(checkout: Path) -> None:
    print("farwrite bench: unpacking OpenMPI into .cache (about 10 s, once)", file=sys.stderr)
    try:
        subprocess.run(
            ["tools/fetch_debs.sh", "--into", str(checkout / FOLDER), PACKAGE],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=True,
        )
        return
    except subprocess.TimeoutExpired:
        reason = f"it took more than {FETCH_SECONDS} s"
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise NotFound(f"bench box: OpenMPI could not be fetched: {reason}; {HINT}")


@contextlib.contextmanager
def mpi_ranks(
    openmpi: OpenMpi, count: int, log: Path, module: str = "farwrite_bench.box.mpi"
) -> Iterator[list[Control]]:
    """Start `count` ranks of `module`, which calls `run_rank`, and wait for a message of each."""
    with contextlib.ExitStack() as stack:
        # MPI's own files: what a rank that is killed leaves goes with the folder.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="farwrite-mpi-"))
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        address = os.path.join(folder, "command")
        listener.bind(address)
        listener.listen(count)
        output = stack.enter_context(log.open("wb"))
        command = openmpi.command(count, sys.executable, "-m", module, address)
        launcher = subprocess.Popen(
            command,
            env={**os.environ, **openmpi.environment, "TMPDIR": folder},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # The launcher ends its ranks at SIGTERM.
            preexec_fn=functools.partial(end_with_parent, signal.SIGTERM),
        )
        stack.callback(_end, launcher)
        ranks = _accept(listener, launcher, count, log, shlex.join(command))
        for rank in ranks:
            stack.callback(rank.close)
        for rank in ranks:
            rank.receive()
        yield ranks


class RankControl(Control):
    """A rank of MPI. Its launcher ends when a rank fails, and reports that rank's exit status."""

    def __init__(
        self,
        connection: Connection,
        number: int,
        log: Path,
        command: str,
        launcher: subprocess.Popen[bytes],
    ) -> None:
        super().__init__(connection, f"MPI rank {number}", log, command)
        self._launcher = launcher

    def _status(self) -> str:
        # It also writes into the log which rank ended, and by which signal.
        with contextlib.suppress(subprocess.TimeoutExpired):
            return status_of(self._launcher.wait(DYING_SECONDS))
        return " (its launcher still runs)"


def _accept(
    listener: socket.socket,
    launcher: subprocess.Popen[bytes],
    count: int,
    log: Path,
    command: str,
) -> list[Control]:
    connections: dict[int, Connection] = {}

    def ended(status: str) -> PeerDead:
        return PeerDead(
            f"bench box: {len(connections)} of {count} ranks of MPI started{status};"
            f" {ran(command)}; {end_of(log)}"
        )

    listener.settimeout(0.2)
    give_up = time.monotonic() + START_SECONDS
    while len(connections) < count:
        try:
            line, _ = listener.accept()
        except TimeoutError:
            if launcher.poll() is None and time.monotonic() < give_up:
                continue
            status = "" if launcher.poll() is None else status_of(launcher.returncode)
            raise ended(status) from None
        line.settimeout(None)
        connection = Connection(line.detach())
        try:
            number = connection.recv()
        except EOFError:
            raise ended(", and one ended at its start") from None
        connections[number] = connection
    return [
        RankControl(connections[number], number, log, command, launcher) for number in range(count)
    ]


def _end(launcher: subprocess.Popen[bytes]) -> None:
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            launcher.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            launcher.wait(END_SECONDS)
            return


def run_rank(follow: Callable[[Connection], None]) -> int:
    """Connect to the command at the first argument, and follow its orders until it closes.

    A rank that fails ends at once, because the other ranks may never come to MPI_Finalize.
    """
    control = Client(sys.argv[1], "AF_UNIX")
    control.send(int(os.environ["OMPI_COMM_WORLD_RANK"]))
    try:
        follow(control)
    except EOFError:
        pass  # the command has what it wanted
    except BaseException as error:
        traceback.print_exc()
        control.send(Failure(f"{type(error).__name__}: {error}"))
        sys.stderr.flush()
        os._exit(1)
    return 0


def load_mpi() -> Any:
    """Import mpi4py, which starts MPI."""
    return importlib.import_module("mpi4py.MPI")
