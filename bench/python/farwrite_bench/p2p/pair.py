"""Two processes that measure together: this process receives, and a child sends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from farwrite.errors import Error, Internal
from farwrite_bench._native import Kind, Op, Peer, Role, stage_bytes
from farwrite_bench.cluster.process import Task

POLLING_SPIN_SECONDS = 1.0
"""`DeviceOptions.spin` with --wait poll: longer than any transfer takes."""
PHASE_SECONDS = 7 * 24 * 3600.0
"""A phase takes as long as the user has chosen."""


@dataclass(frozen=True)
class Setup:
    """The settings that both processes need before they connect."""

    op: str
    fabric: str
    lanes: int
    pool_bytes: int
    wait: str


@dataclass(frozen=True)
class Begin:
    """The first order to the child. It answers twice: with a device that is open, and `Costs`."""

    setup: Setup
    stage: str
    """The path of the stage's memory."""
    endpoint: str


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


@dataclass(frozen=True)
class Costs:
    """The costs of starting one process."""

    allocate_seconds: float
    open_seconds: float
    registrations: int


@dataclass(frozen=True)
class Figures:
    """The figures of a phase in one process."""

    seconds: float
    cpu_seconds: float
    bad: int
    copies: int
    registrations: int
    samples_us: list[float] = field(repr=False)


Made = TypeVar("Made", Costs, Figures)


def _taken(kind: type[Made], native: Any) -> Made:
    """Copy figures, so that they can be pickled."""
    return kind(**{each.name: getattr(native, each.name) for each in fields(kind)})


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


def prepare(peer: Peer, endpoint: str = "") -> Costs:
    """Connect one side, and let it allocate and open its memory."""
    return _taken(Costs, peer.prepare(endpoint))


def run_phase(peer: Peer, phase: Phase) -> Figures:
    """Run one side of a phase; returns when both sides have finished."""
    facts = asdict(phase)
    facts["op"] = Op[phase.op.upper()]
    facts["kind"] = Kind[phase.kind.upper()]
    return _taken(Figures, peer.run_phase(**facts))


class Pair:
    """The receiver in this process and the sender in a child. Use it as a context manager.

    The end of the context ends the child and frees the memory of both, even after an error.

    Parameters
    ----------
    log : Path
        File for the child's output.

    Raises
    ------
    farwrite.Error
        From every method, if either side fails.
    """

    def __init__(self, setup: Setup, log: Path) -> None:
        self.setup = setup
        self.costs: tuple[Costs, Costs]
        """The receiver's and the sender's."""
        self._log = log

    def __enter__(self) -> Pair:
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def run(self, phase: Phase) -> tuple[Figures, Figures]:
        """Run a phase and return the figures of the receiver and of the sender."""
        self._child.send(phase)
        with self._first_cause():
            ours = run_phase(self._peer, phase)
        return ours, self._answer(Figures)

    def _start(self, stack: contextlib.ExitStack) -> None:
        setup = self.setup
        stage = os.memfd_create("farwrite-bench", os.MFD_CLOEXEC)
        try:
            os.truncate(stage, stage_bytes(setup.pool_bytes))
            self._peer = open_peer(Role.RECEIVER, setup, stage)
            task = Task("p2p sender", "farwrite_bench.p2p.sender", {}, self._log)
            self._child = stack.enter_context(task)
            stack.callback(self._stop)
            path = f"/proc/{os.getpid()}/fd/{stage}"
            # Its device is open when it answers, so accept() does not wait for it.
            self._child.ask(Begin(setup, path, self._peer.endpoint))
        finally:
            os.close(stage)
        with self._first_cause():
            ours = prepare(self._peer)
        self.costs = (ours, self._answer(Costs))

    def _answer(self, kind: type[Made]) -> Made:
        answer = self._child.receive(PHASE_SECONDS)
        if not isinstance(answer, kind):
            raise Internal(f"bench p2p: the sender answered {answer!r}; report this")
        return answer

    @contextlib.contextmanager
    def _first_cause(self) -> Iterator[None]:
        """Raise the error of the side that failed first: the other one saw only that it gave up."""
        try:
            yield
        except Error as error:
            self._peer.give_up()
            try:
                self._child.receive()
            except Error as theirs:
                if "gave up" not in str(theirs):
                    raise theirs from None
            raise error from None

    def _stop(self) -> None:
        self._child.close()  # both devices then close at the same time
        self._peer.give_up()
        with contextlib.suppress(Error):
            self._peer.close()
        del self._peer
