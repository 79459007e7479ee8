"""Threads that use the same objects at the same time, and check what they get.

``python shared_by_threads.py SECONDS [NAME...]`` runs each of SHARED for about so many seconds. It
needs no test runner, so that it also runs in a bare environment and under a sanitizer. On a
free-threaded Python it fails if something has switched the GIL on.
"""

from __future__ import annotations

import contextlib
import sys
import sysconfig
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

import farwrite as fw
from farwrite.lifetime.closing import Closing

LONG = 30.0
"""Seconds after which a wait counts as a hang."""
CLOSED = (fw.Cancelled, fw.FailedPrecondition, fw.Unavailable)
"""What a call beside a close may raise."""


def at_once(*calls: Callable[[], object]) -> None:
    """Make the calls at the same time, each in its own thread, and raise the first error."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        start.wait(LONG)
        call()

    with ThreadPoolExecutor(len(calls)) as pool:
        for one in [pool.submit(run, call) for call in calls]:
            one.result()


def turns(seconds: float) -> Iterator[int]:
    """Count from 1 until the time is over."""
    end, turn = time.monotonic() + seconds, 0
    while turn == 0 or time.monotonic() < end:
        turn += 1
        yield turn


def channels(
    left: fw.Device, right: fw.Device, number: int
) -> Iterator[tuple[fw.Channel, fw.Channel]]:
    """Open channels from `left` to `right`."""
    with ThreadPoolExecutor(1) as pool:
        for _ in range(number):
            accepted = pool.submit(right.accept, LONG)
            yield left.connect(right.endpoint, LONG), accepted.result()


@contextlib.contextmanager
def connected(number: int = 1) -> Iterator[list[tuple[fw.Channel, fw.Channel]]]:
    """Give the two ends of each channel between two devices of this process."""
    with fw.Device() as left, fw.Device() as right:
        yield list(channels(left, right, number))


def one_device(seconds: float) -> None:
    """Four threads allocate, publish, connect, look up and close on one device."""
    with fw.Device() as shared:

        def use(number: int) -> None:
            for turn in turns(seconds):
                name = f"array {number}"
                array = shared.publish(name, shared.allocate(100, "int64"))
                array.array[:] = turn
                with fw.Device() as other, other.connect(shared.endpoint, LONG) as channel:
                    assert (channel.lookup(name, LONG).read() == turn).all()
                assert shared.contains(array.array)
                shared.stats(), shared.metrics()
                shared.unpublish(name)
                array.close()

        at_once(*[lambda number=number: use(number) for number in range(4)])


def two_channels(seconds: float) -> None:
    """Two threads write, each on its own channel, and both channels are of the same devices."""
    with connected(2) as pairs:

        def use(near: fw.Channel, far: fw.Channel) -> None:
            landing = far.publish("landing", far.allocate(512, "int64"))
            target = near.lookup("landing", LONG)
            for turn in turns(seconds):
                source = np.full(512, turn)
                near.write(source, target, notify=turn).wait(LONG)
                assert far.wait_notification(LONG).tag == turn
                assert (landing.array == turn).all()

        at_once(*[lambda pair=pair: use(*pair) for pair in pairs])


def one_channel(seconds: float) -> None:
    """Four threads write on one channel, and two take its notifications."""
    with connected() as [(near, far)]:
        landing = far.publish("landing", far.allocate((4, 64), "int64"))
        target = near.lookup("landing", LONG)
        written, taken = Counter[int](), [Counter[int](), Counter[int]()]

        def write(number: int) -> None:
            for turn in turns(seconds):
                source = np.full(64, turn)
                near.write(source, target, 64 * number, notify=number).wait(LONG)
                assert (landing.array[number] == turn).all()
                near.send(b"%d" % number, 9).wait(LONG)
                written[number] = turn
            near.notify(10).wait(LONG)

        def take(counter: Counter[int]) -> None:
            while len(ended) < 4:
                with contextlib.suppress(fw.DeadlineExceeded):
                    notification = far.wait_notification(0.05)
                    assert notification.lane == 0
                    if notification.tag == 10:
                        ended.append(1)
                    elif notification.tag == 9:
                        counter[4 + int(notification.message)] += 1
                    else:
                        counter[notification.tag] += 1

        ended: list[int] = []
        writers = [lambda number=number: write(number) for number in range(4)]
        at_once(*writers, *[lambda counter=counter: take(counter) for counter in taken])
        expected = {**written, **{4 + number: turn for number, turn in written.items()}}
        assert sum(taken, Counter()) == expected
        near.flush().wait(LONG)
        assert near.stats() and near.peer == near.peer


def one_edge(seconds: float) -> None:
    """Two threads send by one sender arrays of different types, and two receive them."""
    kinds = ("int64", "float64", "uint64")
    arrays = [np.full(3, 1 + number, kind) for number, kind in enumerate(kinds)]
    with connected() as [(near, far)]:
        receiver = fw.TensorReceiver(far, "edge", slots=4)
        sender = fw.TensorSender(near, "edge", LONG)
        sent, taken = [Counter[str](), Counter[str]()], [Counter[str](), Counter[str]()]

        def send(number: int) -> None:
            for turn in turns(seconds):
                array = arrays[(turn + number) % len(arrays)]
                sender.send(array, LONG)
                sent[number][str(array.dtype)] += 1

        def send_all() -> None:
            at_once(lambda: send(0), lambda: send(1))
            sender.close(LONG)

        def take(counter: Counter[str]) -> None:
            for array in receiver:
                assert (array == 1 + kinds.index(str(array.dtype))).all()
                counter[str(array.dtype)] += 1

        at_once(send_all, lambda: take(taken[0]), lambda: take(taken[1]))
        assert taken[0] + taken[1] == sent[0] + sent[1]
        receiver.close()


def one_box(seconds: float) -> None:
    """Threads change, read, lease and watch one segment of one client."""
    with fw.box.serve(memory="64M", pool="4M") as server, server.connect() as client:
        segment = client.create("sums", 1000, "int64")
        seen: list[int | fw.Error] = []
        watch = segment.on_update(seen.append)
        ones = np.ones(1000, "int64")
        counts = [0, 0, 0]

        def add(number: int) -> None:
            for turn in turns(seconds):
                update = segment.post.accumulate(ones)
                assert update.wait(LONG) > 0
                counts[number] = turn

        def read() -> None:
            for _ in turns(seconds):
                values, version = segment.read_with_version(timeout=LONG)
                assert (values == version).all()
                with segment.lease(LONG) as lease:
                    assert (lease.array == lease.version).all()
                client.stats(), client.list(), segment.version

        at_once(*[lambda number=number: add(number) for number in range(3)], read)
        assert (segment.read() == sum(counts)).all()
        assert segment.version == sum(counts)
        watch.close()
        assert all(isinstance(version, int) for version in seen)
        assert seen == sorted(seen)  # type: ignore[type-var]


def one_model(seconds: float) -> None:
    """Threads publish by one publisher, and others read one model of one subscriber."""
    model = {"w": np.zeros((8, 8), "float32"), "b": np.zeros(8, "float32")}
    with fw.box.serve(memory="64M", pool="4M") as server, server.connect() as client:
        publisher = server.publisher("model", like=model)
        publisher.publish(model)
        subscriber = client.subscribe("model")

        def publish(number: int) -> None:
            for turn in turns(seconds):
                value = 2 * turn + number
                publisher.publish({key: np.full_like(model[key], value) for key in model})

        def look(latest: fw.box.Model) -> None:
            with contextlib.suppress(fw.FailedPrecondition):  # another thread has closed it
                while True:
                    assert latest["w"][0, 0] == latest["b"][0]

        def close(latest: fw.box.Model) -> None:
            time.sleep(0.001)
            latest.close()

        def read() -> None:
            for _ in turns(seconds):
                with subscriber.latest(timeout=LONG) as latest:
                    at_once(partial(look, latest), partial(look, latest), partial(close, latest))

        at_once(lambda: publish(0), lambda: publish(1), read)
        subscriber.close()
        publisher.close()


def completions(seconds: float) -> None:
    """Threads wait for the same operations, look at them, and cancel some."""
    with fw.Device(fabrics=["tcp"]) as left, fw.Device(fabrics=["tcp"]) as right:
        ((near, far),) = channels(left, right, 1)
        size = 1 << 20
        far.publish("landing", far.allocate(size))
        target = near.lookup("landing", LONG)
        source = np.ones(size, "uint8")
        for turn in turns(seconds):
            posted = [near.write(source, target), near.flush(), near.notify(turn)]

            def wait(posted: list[fw.Completion] = posted) -> None:
                for one in posted:
                    with contextlib.suppress(fw.Cancelled):
                        one.wait(LONG)
                    assert one.done() and repr(one)

            def look(posted: list[fw.Completion] = posted) -> None:
                for one in posted:
                    while not one.settled():
                        repr(one)

            cancel = posted[turn % 3].cancel
            at_once(wait, wait, look, cancel if turn % 4 == 0 else look)
            far.try_notification()


def close_beside_calls(seconds: float) -> None:
    """Channels, their devices and the ends of an edge close while threads call them."""
    for turn in turns(seconds):
        _close_beside_calls(turn)


def _close_beside_calls(turn: int) -> None:
    left, right = fw.Device(), fw.Device()
    (near, far), (tensors, tensors_far) = channels(left, right, 2)
    landing = far.publish("landing", far.allocate(64, "int64"))
    target = near.lookup("landing", LONG)
    receiver = fw.TensorReceiver(tensors_far, "edge")
    sender = fw.TensorSender(tensors, "edge", LONG)
    array = np.arange(64)
    calls: tuple[Callable[[], object], ...] = (
        lambda: near.write(array, target, notify=1).wait(LONG),
        lambda: far.wait_notification(LONG),
        lambda: sender.send(array, LONG),
        lambda: receiver.receive(LONG),
    )
    ends = (near, receiver, left, tensors_far, right)
    at_once(
        *[partial(_until_closed, call) for call in calls],
        *[partial(_close, ends[turn % 5 :] + ends[: turn % 5]) for _ in range(2)],
    )
    landing.close()
    for one in ends:
        one.close(LONG)


def _until_closed(call: Callable[[], object]) -> None:
    with contextlib.suppress(*CLOSED):
        while True:
            call()


def _close(ends: Sequence[Closing]) -> None:
    time.sleep(0.005)
    for end in ends:
        with contextlib.suppress(fw.PeerSilent, fw.DeadlineExceeded):
            end.close()


def handlers(seconds: float) -> None:
    """A handler is set and unset while a peer notifies; each notification arrives once."""
    with connected() as [(near, far)]:
        taken: list[int] = []
        sent = 0
        ended = threading.Event()

        def notify() -> None:
            nonlocal sent
            for turn in turns(seconds):
                near.notify(turn).wait(LONG)
                sent = turn
            ended.set()

        def change() -> None:
            while not ended.is_set():
                far.on_notification(lambda notification: taken.append(notification.tag))
                time.sleep(0.001)
                far.on_notification(None)
                while (notification := far.try_notification()) is not None:
                    taken.append(notification.tag)

        at_once(notify, change)
        with contextlib.suppress(fw.DeadlineExceeded):
            while len(taken) < sent:
                taken.append(far.wait_notification(LONG).tag)
        assert sorted(taken) == list(range(1, sent + 1))


def buffers(seconds: float) -> None:
    """Four threads send from the same memory, register it, and release one registration."""
    with fw.Device() as left, fw.Device() as right:
        ((near, far),) = channels(left, right, 1)
        far.publish("landing", far.allocate(256))
        target = near.lookup("landing", LONG)
        memory = bytearray(256)
        for _ in turns(seconds):
            array = np.frombuffer(bytes(256), "uint8").copy()  # that nothing has exported yet
            registration = left.register(array)

            def use(array: np.ndarray = array, registration=registration) -> None:  # type: ignore
                for _ in range(20):
                    near.write(array, target).wait(LONG)
                    near.write(memory, target).wait(LONG)
                assert registration.nbytes in (0, 256)
                registration.release()
                assert registration.nbytes == 0

            at_once(use, use, use, use)
        del registration
        memory.append(1)  # BufferError, if an export of it was not counted back


SHARED: dict[str, Callable[[float], None]] = {
    each.__name__: each
    for each in (
        one_device,
        two_channels,
        one_channel,
        one_edge,
        one_box,
        one_model,
        completions,
        close_beside_calls,
        handlers,
        buffers,
    )
}


def check_gil() -> None:
    """Fail if this Python was built without the GIL, and runs with it."""
    free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert not free or not sys._is_gil_enabled(), "a module has switched the GIL on"


def main() -> None:
    """Run what the command line names."""
    sys.setswitchinterval(1e-5)
    for name in sys.argv[2:] or SHARED:
        began = time.monotonic()
        SHARED[name](float(sys.argv[1]))
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    check_gil()


if __name__ == "__main__":
    main()
