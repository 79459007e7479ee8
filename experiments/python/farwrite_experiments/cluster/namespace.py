"""A network namespace of this process: it has no name, and ends when nothing uses it any more."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from farwrite.errors import FailedPrecondition

_CLONE_NEWNET = 0x40000000
_OWN = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)

Answer = TypeVar("Answer")


class Namespace(contextlib.ExitStack):
    """An empty network of its own, without a way to any other. Needs root.

    The kernel removes it, with all of its interfaces, when this object is closed and the last
    process inside has ended, even after SIGKILL.

    Raises
    ------
    FailedPrecondition
        If the kernel makes none. The message says why.
    """

    def __init__(self) -> None:
        super().__init__()
        descriptor = in_thread(_make)
        self.callback(os.close, descriptor)
        self.path = f"/proc/{os.getpid()}/fd/{descriptor}"
        """The file that stands for it, for `enter` and for ``ip``, as long as it is open here."""

    def run(self, *command: str) -> str:
        """Run a command inside, and return its output.

        Raises
        ------
        FailedPrecondition
            If it fails. The message has its errors.
        """
        inside = ["nsenter", f"--net={self.path}", "--", *command]
        ended = subprocess.run(inside, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise FailedPrecondition(
                f"bench: `{' '.join(command)}` failed in a network namespace:"
                f" {ended.stderr.strip()}"
            )
        return ended.stdout


def enter(path: str) -> None:
    """Move the calling thread, and what it starts from now on, into a namespace.

    Raises
    ------
    FailedPrecondition
        If the kernel refuses, or there is no such namespace.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise FailedPrecondition(f"bench: {path} is no network namespace: {error}") from error
    try:
        _check(_libc.setns(descriptor, _CLONE_NEWNET), "enter a network namespace")
    finally:
        os.close(descriptor)


def _make() -> int:
    _check(_libc.unshare(_CLONE_NEWNET), "make a network namespace")
    return os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)


def _check(status: int, what: str) -> None:
    if status != 0:
        reason = os.strerror(ctypes.get_errno())
        raise FailedPrecondition(f"bench: cannot {what}: {reason}; run it as root")


def in_thread(work: Callable[[], Answer]) -> Answer:
    """Do work in a new thread, because only the thread that enters a namespace is moved."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
