"""The fabrics, copy kernels and limits of this machine, as this build supports them."""

from __future__ import annotations

import errno
import os
import resource
from typing import TypedDict, cast

from farwrite import _farwrite
from farwrite.errors import ResourceExhausted


class Fabric(TypedDict):
    """One way to move bytes, and whether this machine supports it."""

    name: str
    usable: bool
    reason: str
    """Why it is not usable, or its purpose. For verbs, the preferred port of an adapter."""
    more: list[str]
    """For verbs, the other usable ports, the preferred one first."""


class PciDevice(TypedDict):
    """An RDMA adapter, and its place on PCIe. None means unknown."""

    name: str
    """The name of an adapter, as `ibv_devices` lists it. For a GPU, its PCI address."""
    pci_address: str | None
    """None for software adapters (rxe, siw): they are not on PCIe."""
    host_bridge: str | None
    numa_node: int | None


class Gpu(PciDevice):
    """A GPU of NVIDIA, and its place on PCIe."""

    direct_adapters: list[str]
    """The adapters below the same host bridge, which read its memory directly.

    Transfers by other adapters pass through host memory.
    """


class Topology(TypedDict):
    """Where the RDMA adapters and the GPUs are in this machine."""

    adapters: list[PciDevice]
    gpus: list[Gpu]


class Encryption(TypedDict):
    """Whether this machine supports ``Device(encrypt=True)``."""

    usable: bool
    reason: str
    """Why it is not usable, or the library it uses."""


class CopyKernel(TypedDict):
    """One way to copy memory, as the start-up probe measured it."""

    name: str
    supported: bool
    gb_s: float
    """Rate of a cold copy to memory in 1e9 bytes/s; 0 if it was not probed."""
    chosen: bool


class Limits(TypedDict):
    """The limits of this process on this machine. Memory is in bytes; None means no limit."""

    cpus: int
    """Number of CPUs that this process may run on."""
    cpu: str
    """Model of the CPU."""
    memory: int
    memory_available: int
    shm_huge_pages: str
    """The kernel's policy for transparent huge pages in shared memory."""
    locked_memory: int | None
    open_files: int | None


class Info(TypedDict):
    """The result of `info`."""

    version: str
    fabrics: list[Fabric]
    topology: Topology
    encryption: Encryption
    copy_kernels: list[CopyKernel]
    limits: Limits


def version() -> str:
    """Return Farwrite's version, or "unknown" if the package is not installed.

    Raises
    ------
    ResourceExhausted
        If no descriptor is left to read it.
    """
    from importlib import metadata  # takes longer than `import farwrite`

    try:
        return metadata.version("farwrite")
    except metadata.PackageNotFoundError:
        return "unknown"
    except OSError as error:
        refuse_if_exhausted(error)
        raise


def info() -> Info:
    """Return what this build supports on this machine. The first call takes about 60 ms.

    That time is the probe of the copy kernels.

    Raises
    ------
    ResourceExhausted
        If no descriptor is left to read the machine's files.
    """
    return {
        "version": version(),
        "fabrics": fabrics(),
        "topology": topology(),
        "encryption": encryption(),
        "copy_kernels": copy_kernels(),
        "limits": limits(),
    }


def fabrics() -> list[Fabric]:
    """Try the fabrics. For verbs, use the options in the environment (FARWRITE_VERBS_*).

    Raises
    ------
    InvalidArgument
        If an option in the environment is not valid; the message names the variable.
    """
    from farwrite.options.device import Given, device_options  # needs NumPy
    from farwrite.options.option import from_environment
    from farwrite.options.table import DEVICE_OPTIONS

    given = {}
    for option in DEVICE_OPTIONS:
        found, value = from_environment(option)
        if found and option.fabric == "verbs":
            given[option.name] = Given(option.variable, value)
    return cast("list[Fabric]", _farwrite.fabrics(device_options(given)))


def topology(sysfs: str = "/sys") -> Topology:
    """Read where adapters and GPUs are from `sysfs`, the folder in which the kernel shows them."""
    return cast("Topology", _farwrite.topology(sysfs))


def copy_kernels() -> list[CopyKernel]:
    """Return the ways to copy memory. The first call of a process probes them: about 60 ms."""
    return cast("list[CopyKernel]", _farwrite.copy_kernels())


def encryption() -> Encryption:
    """Try to load OpenSSL, and return the outcome."""
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
    """Return the bytes that the kernel can allocate now without swapping."""
    return _memory("MemAvailable")


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        refuse_if_exhausted(error)
        return ""


def refuse_if_exhausted(error: OSError, operation: str = "read what this machine supports") -> None:
    """Raise `ResourceExhausted` if `error` of `operation` says that no descriptor is left."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise ResourceExhausted(
            f"{operation}: no descriptor is left ({error}); close what is not"
            " used, or raise the limit of open files (ulimit -n)"
        ) from None


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
