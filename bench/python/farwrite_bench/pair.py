"""Two processes that measure together: this process receives, and a child sends."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from farwrite.errors import Error, PeerDead
from farwrite_bench._native import (
    FirstUse,
    Kind,
    Op,
    Outcome,
    Peer,
    Role,
    stage_bytes,
)

POLLING_SPIN_SECONDS = 1.0
"""`DeviceOptions.spin` with --wait poll: longer than any transfer takes."""

_CHILD_EXIT_SECONDS = 10


@dataclass(frozen=True)
class Setup:
    """The settings that both processes need before they connect."""

    op: str
    fabric: str
    lanes: int
    pool_bytes: int
    wait: str


@dataclass(frozen=True)
class Phase:
    """One loop that both processes run. `size` is in bytes; `limit` selects the raw loop."""

    op: str
    kind: str
    limit: bool
    size: int
    transfers: int
    lanes: int = 1
    window: int = 1
    touch: bool = True
    block: bool = False
    seed: int = 0
    kernel: str = ""


def open_peer(role: Role, setup: Setup, stage: int) -> Peer:
    """Open one side's device and map `stage`, a file descriptor."""
    return Peer(
        role=role,
        op=Op[setup.op.upper()],
        fabric=setup.fabric,
        lanes=setup.lanes,
        pool_bytes=setup.pool_bytes,
        spin_seconds=POLLING_SPIN_SECONDS if setup.wait == "poll" else 0.0,
        stage_fd=stage,
    )


def run_phase(peer: Peer, phase: Phase) -> Outcome:
    """Run one side of a phase; returns when both sides have finished."""
    facts = asdict(phase)
    facts["op"] = Op[phase.op.upper()]
    facts["kind"] = Kind[phase.kind.upper()]
    return peer.run_phase(**facts)


class Pair:
    """The receiver in this process and the sender in a child. Use it as a context manager.

    The end of the context ends the child and frees the memory of both, also after an error.

    Raises
    ------
    farwrite.Error
        From every method, if either side fails.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.first_use: tuple[FirstUse, dict[str, Any]]
        """The receiver's and the sender's costs of starting."""
        self._child: subprocess.Popen[str] | None = None
        self._peer: Peer | None = None

    def __enter__(self) -> Pair:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def run(self, phase: Phase) -> tuple[Outcome, dict[str, Any]]:
        """Run a phase and return the outcomes of the receiver and of the sender."""
        assert self._peer is not None
        self._send(asdict(phase))
        try:
            ours = run_phase(self._peer, phase)
        except Error as error:
            # The side that failed first has the cause; the other side only saw that it gave up.
            raise self._cause(error) from None
        return ours, self._reply()

    def _start(self) -> None:
        setup = self.setup
        stage = os.memfd_create("farwrite-bench", os.MFD_CLOEXEC)
        try:
            os.truncate(stage, stage_bytes(setup.pool_bytes))
            self._peer = open_peer(Role.RECEIVER, setup, stage)
            self._child = subprocess.Popen(
                [sys.executable, "-m", "farwrite_bench.peer"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=(stage,),
            )
            self._send({**asdict(setup), "stage": stage, "endpoint": self._peer.endpoint})
            self._reply()  # the child's device is open, so accept() does not wait for it
        finally:
            os.close(stage)
        try:
            ours = self._peer.prepare("")
        except Error as error:
            raise self._cause(error) from None
        self.first_use = (ours, self._reply())

    def _send(self, message: dict[str, Any]) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(message) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None

    def _reply(self) -> dict[str, Any]:
        assert self._child is not None
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise self._death()
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise Error(f"bench p2p, sending process: {reply['error']}")
        return reply

    def _death(self) -> PeerDead:
        assert self._child is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=_CHILD_EXIT_SECONDS)
        return PeerDead(
            f"bench p2p: the sending process ended with status {self._child.returncode};"
            " its own message is above"
        )

    def _cause(self, error: Error) -> Error:
        """Return the error that came first."""
        assert self._peer is not None
        self._peer.give_up()
        try:
            self._reply()
        except Error as theirs:
            if "gave up" not in str(theirs):
                return theirs
        return error

    def _stop(self) -> None:
        child, peer = self._child, self._peer
        self._child = self._peer = None
        try:
            if child is not None and child.stdin is not None:
                # The end of its input ends the child. Both devices then close at the same time.
                with contextlib.suppress(BrokenPipeError):
                    child.stdin.close()
            if peer is not None:
                peer.give_up()
                with contextlib.suppress(Error):
                    peer.close()
        finally:
            if child is not None:
                try:
                    child.wait(timeout=_CHILD_EXIT_SECONDS)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
                if child.stdout is not None:
                    child.stdout.close()
