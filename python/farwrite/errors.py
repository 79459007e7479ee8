"""The exceptions of Farwrite: one class for each status code of the core.

Every message is one sentence. It names the operation, the peer, the fabric, the cause and the
remedy. A class also inherits the built-in exception of the same meaning, so ``except TimeoutError``
and ``except ConnectionError`` catch it.
"""

# The classes are named after the status codes, as people read them: fw.PeerDead.
# ruff: noqa: N818
from __future__ import annotations

import enum
import threading
import time
from typing import ClassVar


class StatusCode(enum.IntEnum):
    """The kind of an error, for programs. The numbers are those of the wire protocol."""

    OK = 0
    INVALID_ARGUMENT = 1
    NOT_FOUND = 2
    ALREADY_EXISTS = 3
    OUT_OF_RANGE = 4
    PERMISSION_DENIED = 5
    UNAUTHENTICATED = 6
    RESOURCE_EXHAUSTED = 7
    FAILED_PRECONDITION = 8
    UNAVAILABLE = 9
    DEADLINE_EXCEEDED = 10
    CANCELLED = 11
    PEER_DEAD = 12
    PEER_SILENT = 13
    PEER_RESTARTED = 14
    VERSION_MISMATCH = 15
    PROTOCOL_ERROR = 16
    FORKED = 17
    UNSUPPORTED = 18
    INTERNAL = 19
    END_OF_STREAM = 20


class Error(Exception):
    """The base class of all exceptions of Farwrite.

    Attributes
    ----------
    code : StatusCode
        The kind of the error, for programs; ``str(error)`` is the sentence for people.
    """

    code: ClassVar[StatusCode] = StatusCode.INTERNAL


class InvalidArgument(Error, ValueError):
    """The caller passed a value that is not valid in any state."""

    code = StatusCode.INVALID_ARGUMENT


class NotFound(Error, LookupError):
    """No such region, name or peer exists."""

    code = StatusCode.NOT_FOUND


class AlreadyExists(Error):
    """The name or port is already in use."""

    code = StatusCode.ALREADY_EXISTS


class OutOfRange(Error, IndexError):
    """Offset and length exceed the bounds of the array."""

    code = StatusCode.OUT_OF_RANGE


class PermissionDenied(Error, PermissionError):
    """The memory does not permit the access, or belongs to another user's process."""

    code = StatusCode.PERMISSION_DENIED


class Unauthenticated(Error, PermissionError):
    """The shared token is missing or wrong."""

    code = StatusCode.UNAUTHENTICATED


class ResourceExhausted(Error, MemoryError):
    """A memory limit or quota is reached, or no descriptor or ring slot is free."""

    code = StatusCode.RESOURCE_EXHAUSTED


class FailedPrecondition(Error, RuntimeError):
    """The state does not permit the call: the device, channel or array is closed."""

    code = StatusCode.FAILED_PRECONDITION


class Unavailable(Error, ConnectionError):
    """The fabric or the peer is unavailable now."""

    code = StatusCode.UNAVAILABLE


class DeadlineExceeded(Error, TimeoutError):
    """The timeout passed. The operation may still be in flight."""

    code = StatusCode.DEADLINE_EXCEEDED


class Cancelled(Error):
    """The operation was cancelled, or its channel was closed."""

    code = StatusCode.CANCELLED


class PeerDead(Error, ConnectionError):
    """The peer's death is proven: its process is gone or its connection was reset."""

    code = StatusCode.PEER_DEAD


class PeerSilent(Error, ConnectionError):
    """The peer does not answer. It may resume."""

    code = StatusCode.PEER_SILENT


class PeerRestarted(Error, ConnectionError):
    """The requested object belongs to an earlier start of the peer's device."""

    code = StatusCode.PEER_RESTARTED


class VersionMismatch(Error, ConnectionError):
    """The two sides share no version of the protocol."""

    code = StatusCode.VERSION_MISMATCH


class ProtocolError(Error, ConnectionError):
    """The peer sent bytes that break the protocol."""

    code = StatusCode.PROTOCOL_ERROR


class Forked(Error, RuntimeError):
    """A forked child used an object of its parent."""

    code = StatusCode.FORKED


class Unsupported(Error, NotImplementedError):
    """The fabric or the machine does not support the operation."""

    code = StatusCode.UNSUPPORTED


class Internal(Error, RuntimeError):
    """A bug in Farwrite."""

    code = StatusCode.INTERNAL


class EndOfStream(Error, EOFError):
    """The sender closed the stream of tensors, and every tensor of it was received."""

    code = StatusCode.END_OF_STREAM


BY_CODE: dict[int, type[Error]] = {int(kind.code): kind for kind in Error.__subclasses__()}


def begin_end() -> None:
    """Say that the interpreter ends, before Farwrite closes what is open. For atexit."""
    global _ending
    _ending = True


def ending() -> bool:
    """Tell whether Farwrite closes, or has closed, what was open at the interpreter's end."""
    return _ending


def from_status(code: int, message: str) -> Error:
    """Make the exception for a status of the core. An unknown code gives a plain `Error`.

    While the interpreter ends, it does not return in a daemon thread: what is closed then gives
    every wait of such a thread an error, which nothing can handle any more.
    """
    if _ending:
        _stop_daemon()
    return BY_CODE.get(code, Error)(message)


def _stop_daemon() -> None:
    thread = threading.current_thread()
    # A poller, which the close waits for, is a thread that Python does not know.
    if thread.daemon and not isinstance(thread, threading._DummyThread):
        while True:
            time.sleep(3600)


_ending = False
