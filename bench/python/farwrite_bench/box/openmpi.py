"""Finds Debian's OpenMPI, or unpacks it without root, and starts programs under it.

``tools/fetch_debs.sh`` unpacks the packages into the ``.cache`` of a checkout. The variables in
`OpenMpi.environment` name that place to OpenMPI. ``mpi4py`` comes from PyPI; its wheel loads the
first ``libmpi.so.40`` that the loader finds.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from farwrite.errors import NotFound

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


def find(fetch: bool = True) -> OpenMpi:
    """Return the OpenMPI of this machine, or of this checkout; with `fetch`, unpack it there.

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
        if fetch and not (checkout / FOLDER / "usr/bin/orterun").exists():
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
        done = subprocess.run(
            ["tools/fetch_debs.sh", "--into", str(checkout / FOLDER), PACKAGE],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotFound(
            f"bench box: OpenMPI could not be fetched within {FETCH_SECONDS} s; {HINT}"
        ) from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NotFound(f"bench box: OpenMPI could not be fetched: {reason}; {HINT}")
