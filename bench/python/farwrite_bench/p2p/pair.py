"""Two processes that measure together: this process receives, and a child sends."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from farwrite.errors import Error
from farwrite_bench._native import (
    FirstUse,
    Kind,
    Op,
    Outcome,
    Peer,
    Role,
    stage_bytes,
)
from farwrite_bench.program import Program

POLLING_SPIN_SECONDS = 1.0
"""`DeviceOptions.spin` with --wait poll: longer than any transfer takes."""


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
        self._child: Program | None = None
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
        assert self._child is not None
        self._child.order(json.dumps(asdict(phase)))
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
            self._child = Program(
                "bench p2p",
                "the sending process",
                [sys.executable, "-m", "farwrite_bench.p2p.sender"],
                descriptors=(stage,),
            )
            beginning = {**asdict(setup), "stage": stage, "endpoint": self._peer.endpoint}
            self._child.order(json.dumps(beginning))
            self._reply()  # the child's device is open, so accept() does not wait for it
        finally:
            os.close(stage)
        try:
            ours = self._peer.prepare("")
        except Error as error:
            raise self._cause(error) from None
        self.first_use = (ours, self._reply())

    def _reply(self) -> dict[str, Any]:
        assert self._child is not None
        reply = self._child.answer(None)  # a phase takes as long as the user has chosen
        if "error" in reply:
            raise Error(f"bench p2p, sending process: {reply['error']}")
        return reply

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
            if child is not None:
                child.close_orders()  # both devices then close at the same time
            if peer is not None:
                peer.give_up()
                with contextlib.suppress(Error):
                    peer.close()
        finally:
            if child is not None:
                child.end()
