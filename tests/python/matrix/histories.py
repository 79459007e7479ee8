"""What a peer does until it is killed, and what must be left of it.

A history has a part in the peer, of which each step is told here once it was acknowledged, and a
part here. When the peer is dead, all that was acknowledged is left, and at most the step under way,
each whole; and a stream that was cut ends with an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import farwrite as fw
from farwrite import box as boxes
from matrix.injection import Injection
from processes import PeerProcess, PeerState

STEPS = 4
SEGMENT = 2 << 20
ELEMENTS = 1 << 14
"""Of float32: 64 KiB, more than goes with a record or in one packet."""
PATIENCE = 20.0
CUT = (fw.PeerDead, fw.Unavailable)


def filled(value: int) -> Any:
    return np.full(ELEMENTS, value, "float32")


def value_of(array: Any) -> int:
    """The one value of all elements."""
    values = np.unique(np.asarray(array))
    assert len(values) == 1, f"a part of one and a part of another: {values}"
    return int(values[0])


def all_steps(step: Callable[[int], object]) -> None:
    """Do them in the peer, and tell after each that it was acknowledged."""
    for number in range(1, STEPS + 1):
        step(number)
        Injection().tell(0, number)


class Run:
    """One run of a history, as its part here sees it."""

    def __init__(self, peer: PeerProcess, fabric: str, folder: str, kills: bool) -> None:
        self.fabric, self.folder, self.kills, self._peer = fabric, folder, kills, peer
        self._injection = Injection()

    def begin(self, part: Callable[..., None], *arguments: object) -> None:
        """Start the part of the peer, which meets its death from here on."""
        self._injection.tell(0, 0)
        with contextlib.suppress(BrokenPipeError):  # it is dead already
            self._peer.start(part, *arguments, self.fabric)

    def ended_well(self) -> bool:
        """Wait for the end of the peer's part: whether it was neither killed nor cut."""
        try:
            self._peer.result()
        except (EOFError, ConnectionResetError):
            self._peer.kill()
            return False
        except CUT:
            return False
        return True

    def killed(self) -> bool:
        """Whether the peer has been killed by now."""
        return self._injection.struck(1) > 0

    def acknowledged(self) -> int:
        return self._injection.told(0)

    def expect(self, found: int) -> None:
        """What is left is what was acknowledged, or one more."""
        told = self.acknowledged()
        assert found in (told, told + 1), f"{told} were acknowledged, and {found} are there"

    def accept(self, device: fw.Device) -> fw.Channel | None:
        """Return the peer's channel, or None if it was killed before."""
        while True:
            try:
                return device.accept(0.2)
            except fw.DeadlineExceeded:
                if self.killed():
                    assert self.acknowledged() == 0
                    return None


@contextlib.contextmanager
def box(run: Run) -> Iterator[tuple[boxes.Server, boxes.Client]]:
    with (
        boxes.serve(memory="16M", segment_bytes=SEGMENT, fabrics=[run.fabric]) as server,
        boxes.connect(
            server.endpoint, timeout=PATIENCE, segment_bytes=SEGMENT, fabrics=[run.fabric]
        ) as client,
    ):
        yield server, client


def change(state: PeerState, endpoint: str, fabric: str) -> None:
    with boxes.connect(
        endpoint, timeout=PATIENCE, segment_bytes=SEGMENT, fabrics=[fabric]
    ) as client:
        segment = client.attach("w")
        all_steps(lambda _: segment.accumulate(filled(1)))


def changes(run: Run) -> None:
    """A segment of a box that lives here."""
    with box(run) as (server, client):
        segment = client.create("w", ELEMENTS, "float32")
        segment.fill(0)
        before = segment.version
        run.begin(change, server.endpoint)
        run.ended_well()
        while server.stats().clients > 1:  # until its change under way is applied
            pass
        found = segment.version - before
        run.expect(found)
        assert value_of(segment.read()) == found


def publish(state: PeerState, endpoint: str, fabric: str) -> None:
    def model(number: int) -> dict[str, Any]:
        return {"a": filled(number), "b": filled(number)}

    with (
        boxes.connect(
            endpoint, timeout=PATIENCE, segment_bytes=SEGMENT, fabrics=[fabric]
        ) as client,
        client.publisher("model", model(0)) as publisher,
    ):
        all_steps(lambda number: publisher.publish(model(number)))


def models(run: Run) -> None:
    """A model of a box that lives here."""
    with box(run) as (server, client):
        run.begin(publish, server.endpoint)
        run.ended_well()
        while server.stats().clients > 1:
            pass
        try:
            with (
                client.subscribe("model", 0.1) as subscriber,
                subscriber.latest(timeout=0.1) as model,
            ):
                found = value_of(model["a"])
                assert found == value_of(model["b"])
        except (fw.NotFound, fw.DeadlineExceeded):
            found = 0
        run.expect(found)


def send_messages(state: PeerState, endpoint: str, fabric: str) -> None:
    with (
        fw.Device(fabrics=[fabric], segment_bytes=SEGMENT) as device,
        device.connect(endpoint) as channel,
    ):
        all_steps(lambda number: channel.send(bytes([number]) * 1000).wait(PATIENCE))


def messages(run: Run) -> None:
    """Notifications with messages."""
    with fw.Device(fabrics=[run.fabric], segment_bytes=SEGMENT) as device:
        run.begin(send_messages, device.endpoint)
        channel = run.accept(device)
        if channel is None:
            return
        taken = []
        cut = False
        try:
            taken.extend(one.message for one in channel.notifications())
        except CUT:
            cut = True
        # A peer that lives on, whose send failed, may still close its channel normally.
        whole = STEPS if run.kills else run.acknowledged()
        assert cut or len(taken) >= whole, f"{run.acknowledged()} told, {len(taken)} taken"
        assert taken == [bytes([number]) * 1000 for number in range(1, len(taken) + 1)]
        run.ended_well()


def write(state: PeerState, endpoint: str, fabric: str) -> None:
    with (
        fw.Device(fabrics=[fabric], segment_bytes=SEGMENT) as device,
        device.connect(endpoint) as channel,
    ):
        channel.wait_notification(PATIENCE)  # the inbox is there
        inbox = channel.lookup("inbox", PATIENCE)
        source = device.allocate(ELEMENTS, "float32")

        def step(number: int) -> None:
            source.array[:] = number
            channel.write(source, inbox, notify=number).wait(PATIENCE)
            channel.wait_notification(PATIENCE)  # it was looked at

        all_steps(step)


def writes(run: Run) -> None:
    """One-sided writes, of which each is notified."""
    with fw.Device(fabrics=[run.fabric], segment_bytes=SEGMENT) as device:
        run.begin(write, device.endpoint)
        channel = run.accept(device)
        if channel is None:
            return
        try:
            inbox = channel.publish("inbox", channel.allocate(ELEMENTS, "float32"))
            channel.notify(0).wait(PATIENCE)
            for number in range(1, STEPS + 1):
                assert channel.wait_notification(PATIENCE).tag == number
                assert value_of(inbox.array) == number
                channel.notify(0).wait(PATIENCE)
        except CUT:
            pass
        run.ended_well()


def send_tensors(state: PeerState, endpoint: str, fabric: str) -> None:
    with (
        fw.Device(fabrics=[fabric], segment_bytes=SEGMENT) as device,
        device.connect(endpoint) as channel,
        fw.TensorSender(channel, "edge", PATIENCE) as sender,
    ):
        all_steps(lambda number: sender.send(filled(number), PATIENCE).wait(PATIENCE))


def tensors_from(run: Run) -> None:
    """A stream of tensors that the peer sends."""
    with fw.Device(fabrics=[run.fabric], segment_bytes=SEGMENT) as device:
        run.begin(send_tensors, device.endpoint)
        channel = run.accept(device)
        if channel is None:
            return
        taken = []
        cut = False
        try:
            receiver = fw.TensorReceiver(channel, "edge")
            taken.extend(value_of(array) for array in receiver)
        except CUT:
            cut = True
        assert cut or len(taken) == STEPS, f"{run.acknowledged()} told, {len(taken)} taken"
        assert taken == list(range(1, len(taken) + 1))
        run.ended_well()


def receive_tensors(state: PeerState, endpoint: str, fabric: str) -> None:
    with (
        fw.Device(fabrics=[fabric], segment_bytes=SEGMENT) as device,
        device.connect(endpoint) as channel,
        fw.TensorReceiver(channel, "edge") as receiver,
    ):
        for number, array in enumerate(receiver, 1):
            assert value_of(array) == number
            Injection().tell(0, number)


def tensors_to(run: Run) -> None:
    """A stream of tensors that the peer receives: what close() says was taken, was taken."""
    with fw.Device(fabrics=[run.fabric], segment_bytes=SEGMENT) as device:
        run.begin(receive_tensors, device.endpoint)
        channel = run.accept(device)
        if channel is None:
            return
        sent = 0
        closed_well = False
        try:
            with fw.TensorSender(channel, "edge", PATIENCE) as sender:
                for number in range(1, STEPS + 1):
                    sender.send(filled(number), PATIENCE).wait(PATIENCE)
                    sent = number
            closed_well = True
        except CUT:
            pass
    if run.ended_well() and run.kills:  # and no acknowledgement was cut
        assert closed_well, "the peer took all, and close() says that it did not"
    told = run.acknowledged()  # the last one is told after it was taken
    assert told >= STEPS - 1 if closed_well else told <= sent + 1


def serve(state: PeerState, folder: str, fabric: str) -> None:
    with (
        boxes.serve(
            snapshot=folder, memory="16M", segment_bytes=SEGMENT, fabrics=[fabric]
        ) as server,
        server.connect() as client,
    ):
        segment = client.create("w", ELEMENTS, "float32")

        def step(number: int) -> None:
            segment.fill(number)
            server.snapshot()

        all_steps(step)


def snapshots(run: Run) -> None:
    """What a box has written to its directory when it is killed."""
    run.begin(serve, run.folder)
    run.ended_well()
    try:
        server = boxes.serve(
            snapshot=run.folder, restore=True, segment_bytes=SEGMENT, fabrics=[run.fabric]
        )
    except (fw.NotFound, fw.FailedPrecondition):  # there is no snapshot
        assert run.acknowledged() == 0
        return
    with server, server.connect() as client:
        found = value_of(client.attach("w").read())
        run.expect(found)


HISTORIES: dict[str, Callable[[Run], None]] = {
    "changes": changes,
    "models": models,
    "messages": messages,
    "writes": writes,
    "tensors_from": tensors_from,
    "tensors_to": tensors_to,
    "snapshots": snapshots,
}
