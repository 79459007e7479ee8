"""What this build of Farwrite can do on this machine."""

from __future__ import annotations

import os
import resource
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TypedDict, cast

from farwrite import _farwrite
from farwrite.option import Option, from_environment
from farwrite.options import Given, device_options
from farwrite.options_table import DEVICE_OPTIONS


class Fabric(TypedDict):
    """One way to move bytes, and whether it can be had here."""

    name: str
    usable: bool
    reason: str
    """Why not, or what it is for; of verbs, the adapter's port that is first in line."""
    more: list[str]
    """Of verbs, the other ports that would do, best first."""


class Encryption(TypedDict):
    """Whether ``Device(encrypt=True)`` can be had here."""

    usable: bool
    reason: str


class CopyKernel(TypedDict):
    """One way to copy memory, as the start-up probe saw it."""

    name: str
    supported: bool
    gb_s: float
    """Cold copy rate, 1e9 bytes/s; 0 if it was not probed."""
    chosen: bool


class Limits(TypedDict):
    """What the machine allows this process. Bytes, and None where there is no limit."""

    cpus: int
    """That this process may run on."""
    cpu: str
    memory: int
    memory_available: int
    shm_huge_pages: str
    """The kernel's policy for transparent huge pages in shared memory."""
    locked_memory: int | None
    open_files: int | None


class Info(TypedDict):
    """All that `info` returns."""

    version: str
    fabrics: list[Fabric]
    encryption: Encryption
    copy_kernels: list[CopyKernel]
    limits: Limits


def version() -> str:
    """Return Farwrite's version, or "unknown" where it runs without being installed."""
    try:
        return installed_version("farwrite")
    except PackageNotFoundError:
        return "unknown"


def info() -> Info:
    """Say what this build can do on this machine. Probes the copy kernels: about 60 ms once."""
    return {
        "version": version(),
        "fabrics": fabrics(),
        "encryption": encryption(),
        "copy_kernels": copy_kernels(),
        "limits": limits(),
    }


def fabrics() -> list[Fabric]:
    """Try the fabrics out; verbs with the options that the environment sets (FARWRITE_VERBS_*).

    Raises
    ------
    InvalidArgument
        If one of them is no valid value; the message names the variable.
    """
    given = {}
    for option in DEVICE_OPTIONS:
        found, value = from_environment(option) if _of_verbs(option) else (False, None)
        if found:
            given[option.name] = Given(option.variable, value)
    return cast("list[Fabric]", _farwrite.fabrics(device_options(given)))


def copy_kernels() -> list[CopyKernel]:
    """Return the ways to copy memory. The first call of a process probes them: about 60 ms."""
    return cast("list[CopyKernel]", _farwrite.copy_kernels())


def encryption() -> Encryption:
    """Try to load OpenSSL."""
    fault = _farwrite.why_encryption_cannot_work()
    return {"usable": not fault, "reason": fault or "TLS 1.3 by the system's OpenSSL 3"}


def limits() -> Limits:
    """Read the machine's limits from the kernel."""
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": _field("/proc/cpuinfo", "model name") or _field("/proc/cpuinfo", "CPU part") or "?",
        "memory": _memory("MemTotal"),
        "memory_available": memory_available(),
        "shm_huge_pages": _chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
        "locked_memory": _soft_limit(resource.RLIMIT_MEMLOCK),
        "open_files": _soft_limit(resource.RLIMIT_NOFILE),
    }


def memory_available() -> int:
    """Return the bytes the kernel could hand out now without swapping."""
    return _memory("MemAvailable")


def _of_verbs(option: Option) -> bool:
    return option.name.startswith("verbs_")


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _field(path: str, name: str) -> str:
    for line in _read(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _memory(name: str) -> int:
    amount, _, unit = _field("/proc/meminfo", name).partition(" ")
    return int(amount or 0) * (1024 if unit == "kB" else 1)


def _chosen(path: str) -> str:
    # The kernel brackets the setting in force: "always within_size [advise] never".
    _, _, rest = _read(path).partition("[")
    return rest.partition("]")[0] or "unknown"


def _soft_limit(kind: int) -> int | None:
    soft, _ = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft
