"""Two processes that measure together: this one receives, a child sends."""

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
"""`DeviceOptions.spin` of --wait poll: longer than anything here takes."""

_CHILD_EXIT_SECONDS = 10


@dataclass(frozen=True)
class Setup:
    """What both processes must know before they meet."""

    op: str
    fabric: str
    lanes: int
    pool_bytes: int
    wait: str


@dataclass(frozen=True)
class Phase:
    """One loop that both run. `size` in bytes; `limit` picks the raw loop instead of Farwrite."""

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
    """Open one side's device and map the stage, a file descriptor."""
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
    """Run one side of a phase; returns when both sides are through."""
    facts = asdict(phase)
    facts["op"] = Op[phase.op.upper()]
    facts["kind"] = Kind[phase.kind.upper()]
    return peer.run_phase(**facts)


class Pair:
    """The receiver in this process and the sender in a child. Use it as a context manager.

    The child ends with the context, whatever happened; so does the memory of both.

    Raises
    ------
    farwrite.Error
        From every method, with what failed on either side.
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
        """Run a phase and give the receiver's and the sender's outcome."""
        assert self._peer is not None
        self._tell(asdict(phase))
        try:
            ours = run_phase(self._peer, phase)
        except Error as error:
            # The cause is on whichever side failed first; the other one only saw it give up.
            raise self._blame(error) from None
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
            self._tell({**asdict(setup), "stage": stage, "endpoint": self._peer.endpoint})
            self._reply()  # its device is open: it will not keep accept() waiting
        finally:
            os.close(stage)
        try:
            ours = self._peer.prepare("")
        except Error as error:
            raise self._blame(error) from None
        self.first_use = (ours, self._reply())

    def _tell(self, message: dict[str, Any]) -> None:
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
            " see what it printed above"
        )

    def _blame(self, error: Error) -> Error:
        """Find the error that came first."""
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
                # End of input is the sign to go; the two devices then close against each other.
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
