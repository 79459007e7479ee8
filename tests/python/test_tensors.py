"""Tensor senders and receivers: every dtype, every kind of edge, arrays that outlive everything."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import farwrite as fw
from conftest import Link, Pair
from processes import PeerState

PLAIN = ["?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d", "g", "F", "D", "G"]
OTHERS = [">f4", "S5", "U3", "M8[us]", "m8[D]", "V7", [("a", "<i4"), ("b", "<f8", (2, 3))]]


def _values(shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    element = np.dtype(dtype)
    count = int(np.prod(shape)) * element.itemsize
    pattern = (np.arange(count) % 2).astype(np.uint8)  # of no NaN in any type
    return pattern.view(element).reshape(shape) if count else np.empty(shape, element)


def _bytes(array: npt.NDArray[Any]) -> bytes:
    return array.tobytes()


def _edge(pair: Pair, name: str, *args: Any, **options: Any) -> tuple[Any, Any]:
    receiver = fw.TensorReceiver(pair.far, name, *args, **options)
    return fw.TensorSender(pair.near, name, timeout=20), receiver


@pytest.mark.parametrize("dtype", [*PLAIN, *OTHERS], ids=str)
def test_every_numpy_dtype_arrives_on_every_kind_of_edge(pair: Pair, dtype: Any) -> None:
    array = _values((3, 4), dtype)
    edges = [
        _edge(pair, "static", array.shape, array.dtype),
        _edge(pair, "bounded", dtype=array.dtype, max_bytes=array.nbytes),
        _edge(pair, "dynamic"),
    ]
    for sender, receiver in edges:
        sender.send(array).wait(10)
        received = receiver.receive(10)
        assert received.dtype == array.dtype
        assert received.shape == array.shape
        assert _bytes(received) == _bytes(array)
        assert not received.flags.writeable
    assert edges[0][0].dtype == array.dtype
    assert edges[0][0].shape == (3, 4)
    assert edges[1][0].shape is None
    assert edges[2][0].dtype is None
    assert [sender.kind for sender, _ in edges] == ["static", "bounded", "dynamic"]


@pytest.mark.parametrize(
    "name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int4"]
)
def test_types_of_ml_dtypes_go_by_name(pair: Pair, name: str) -> None:
    types = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(types, name))
    array = np.arange(6).astype(dtype).reshape(2, 3)
    for kind, options in {"static": {"shape": (2, 3), "dtype": dtype}, "dynamic": {}}.items():
        sender, receiver = _edge(pair, kind, **options)
        sender.send(array).wait(10)
        received = receiver.receive(10)
        assert received.dtype == dtype
        assert _bytes(received) == _bytes(array)
    shown = pair.left.allocate((2, 3), dtype)
    pair.left.publish("weights", shown)
    assert pair.far.lookup("weights").dtype == dtype


def test_renaming_the_fields_of_one_array_leaves_the_others_alone(pair: Pair) -> None:
    fields = np.dtype([("x", "i4"), ("y", "f4")])
    sender, receiver = _edge(pair, "fields")
    sent = np.zeros(2, fields)
    for round in range(3):
        sender.send(sent)
        received = receiver.receive(20)
        assert received.dtype.names == sent.dtype.names, f"round {round}"
        received.dtype.names = (f"p{round}", f"q{round}")
        sent.dtype.names = (f"s{round}", f"t{round}")


def test_a_name_that_is_no_type_is_refused() -> None:
    from farwrite.memory.description import dtype_from_text

    for text in ("finfo", "no_such_type", "O", "|O", '["broken"', "__name__"):
        with pytest.raises(fw.ProtocolError):
            dtype_from_text(text)


@pytest.mark.parametrize("rank", range(17))
def test_every_rank_arrives(pair: Pair, rank: int) -> None:
    array = np.arange(2 ** min(rank, 4), dtype="<i2").reshape(
        (2,) * min(rank, 4) + (1,) * (rank - 4)
    )
    for sender, receiver in (
        _edge(pair, "static", array.shape, array.dtype),
        _edge(pair, "bounded", dtype="<i2", max_bytes=64),
        _edge(pair, "dynamic"),
    ):
        sender.send(array).wait(10)
        received = receiver.receive(10)
        assert received.shape == array.shape
        assert (received == array).all()


def test_a_seventeenth_dimension_is_refused(pair: Pair) -> None:
    with pytest.raises(fw.InvalidArgument, match="17 dimensions"):
        fw.TensorReceiver(pair.far, "deep", (1,) * 17, "f4")
    sender, _ = _edge(pair, "dynamic")
    with pytest.raises(fw.InvalidArgument, match="17 dimensions"):
        sender.send(np.zeros((1,) * 17))


def test_empty_arrays_and_scalars_arrive(pair: Pair) -> None:
    sender, receiver = _edge(pair, "any")
    for array in (np.empty((0,), "f4"), np.empty((3, 0, 2), "M8[s]"), np.array(7.5), np.float32(2)):
        sender.send(np.asarray(array)).wait(10)
        received = receiver.receive(10)
        assert received.shape == np.shape(array)
        assert (received == array).all()


def test_a_slot_is_free_again_when_its_array_is_gone(pair: Pair) -> None:
    sender, receiver = _edge(pair, "slots", (100,), "f8", slots=2)
    for step in range(20):
        sender.send(np.full(100, step, "f8")).wait(10)
        array = receiver.receive(10)
        assert (array == step).all()
        del array
    assert sender.stats().pushed == 20
    assert sender.stats().offered == 0
    kept = []
    for step in range(5):
        sender.send(np.full(100, step, "f8")).wait(10)
        kept.append(receiver.receive(10)[::2])  # a view of a view keeps it, too
    stats = sender.stats()
    assert (stats.pushed, stats.offers_no_slot, stats.eager) == (22, 3, 3)
    assert stats.staged == 0
    assert receiver.stats().slots_viewed == 2
    assert [float(array[0]) for array in kept] == [0, 1, 2, 3, 4]
    kept.clear()
    assert receiver.stats().slots_granted == 2


def test_memory_of_the_device_is_viewed_in_place(pair: Pair) -> None:
    sender, receiver = _edge(pair, "zero copies")
    array = pair.left.allocate((1000,), "f4")
    array.array[:] = 3
    sent = sender.send(array)
    received = receiver.receive(10)
    assert receiver.stats().aliased == 1
    assert sender.stats().staged == 0
    assert not sent.done()
    assert (received == 3).all()
    del received
    gc.collect()
    sent.wait(10)


@pytest.mark.parametrize("copy", [False, True])
def test_an_empty_array_is_in_its_offer(pair: Pair, copy: bool) -> None:
    sender, receiver = _edge(pair, "nothing", copy=copy)
    sender.send(np.zeros((3, 0), "f4")).wait(10)
    assert receiver.receive(10).shape == (3, 0)
    assert (sender.stats().offered, sender.stats().eager) == (1, 1)
    stats = receiver.stats()
    assert (stats.offered, stats.eager, stats.aliased, stats.read) == (1, 1, 0, 0)
    assert stats.allocations == 0


def test_an_edge_takes_as_many_slots_as_its_documentation_says(pair: Pair) -> None:
    sender, receiver = _edge(pair, "many", 1, "u1", slots=1024)
    assert sender.stats().slots_granted == 1024
    receiver.close()


def test_copying_receivers_own_what_they_receive(pair: Pair) -> None:
    sender, receiver = _edge(pair, "copies", copy=True)
    array = pair.left.allocate((1000,), "f4")
    array.array[:] = 3
    sent = sender.send(array)
    received = receiver.receive(10)
    sent.wait(10)
    array.array[:] = 4
    assert (received == 3).all()
    stats = receiver.stats()
    assert (stats.read, stats.allocations, stats.registrations) == (1, 1, 0)


def test_what_does_not_fit_the_edge_is_refused(pair: Pair) -> None:
    sender, _ = _edge(pair, "picky", (2, 3), "f4")
    for array, cause in (
        (
            np.zeros((3, 2), "f4"),
            r"shape is \(3, 2\), .* takes \(2, 3\) alone; .* bounded or dynamic",
        ),
        (np.zeros((2, 3), "f8"), r'dtype is "<f8" of 8 bytes, .* takes "<f4" of 4 .* as dynamic'),
        (np.zeros((2, 3), ">f4"), r'dtype is ">f4" of 4 bytes, .* takes "<f4" of 4 bytes alone'),
        (np.zeros((3, 2), "f8"), r"dtype .* by its name alone, as dynamic"),
    ):
        with pytest.raises(fw.InvalidArgument, match=cause) as refused:
            sender.send(array)
        assert '"picky"' in str(refused.value)
    with pytest.raises(fw.InvalidArgument, match="contiguous"):
        sender.send(np.zeros((3, 2), "f4").T)
    with pytest.raises(fw.InvalidArgument, match="Python objects"):
        sender.send(np.array([[object()] * 3] * 2))
    bounded, _ = _edge(pair, "small", dtype="f4", max_bytes=8)
    with pytest.raises(fw.InvalidArgument, match="12 bytes"):
        bounded.send(np.zeros(3, "f4"))
    with pytest.raises(fw.InvalidArgument, match=r'"<i4" of 4 bytes, .* "<f4" of .* as dynamic'):
        bounded.send(np.zeros(2, "i4"))


def test_a_receiver_says_what_its_kind_needs(pair: Pair) -> None:
    for options, missing in (
        ({"shape": 3}, "needs dtype"),
        ({"dtype": "f4", "kind": "bounded"}, "needs max_bytes"),
        ({"kind": "static", "dtype": "f4"}, "needs shape"),
        ({"kind": "dynamic", "dtype": "f4"}, "takes no dtype"),
        ({"kind": "sparse"}, "sparse"),
        ({"shape": 3, "dtype": "O"}, "Python objects"),
        ({"shape": 3, "dtype": "f4", "slots": 0}, "slots 0 .* from 1 to 1024"),
        ({"shape": 3, "dtype": "f4", "slots": -1}, "slots -1 .* from 1 to 1024"),
        ({"shape": 3, "dtype": "f4", "slots": 1025}, "slots 1025 .* from 1 to 1024"),
        ({"lane": -1}, r"lane -1 .* from 0 to channel.peer.lanes - 1"),
        ({"lane": 7}, "lane 7 of 1; open both devices with more lanes"),
    ):
        with pytest.raises(fw.InvalidArgument, match=missing):
            fw.TensorReceiver(pair.far, "wrong", **options)
    fw.TensorReceiver(pair.far, "right")
    with pytest.raises(fw.DeadlineExceeded, match="wrong"):
        fw.TensorSender(pair.near, "wrong", timeout=0.05)


def test_iterating_ends_when_the_sender_closes(pair: Pair) -> None:
    sender, receiver = _edge(pair, "stream", (4,), "i4")
    for step in range(10):
        sender.send(np.full(4, step, "i4")).wait(10)
    with pytest.raises(fw.DeadlineExceeded, match="took 0 of 10 tensors"):
        sender.close(0)
    assert [int(array[0]) for array in receiver] == list(range(10))
    with pytest.raises(fw.EndOfStream, match="stream"):
        receiver.receive(10)
    sender.close()
    with sender:
        pass
    with receiver:
        pass
    assert receiver.closed
    assert repr(receiver) == "<TensorReceiver 'stream', static, closed>"
    assert repr(sender) == "<TensorSender 'stream', static, closed>"
    with pytest.raises(fw.Cancelled):
        receiver.receive(10)
    with pytest.raises(fw.Cancelled):
        list(receiver)
    assert receiver.stats().slots_free == 2


def test_async_iteration_takes_turns_with_other_tasks(pair: Pair) -> None:
    async def consume(receiver: fw.TensorReceiver) -> list[int]:
        return [int(array[0]) async for array in receiver]

    async def produce(sender: fw.TensorSender) -> None:
        async with sender:
            for step in range(30):
                await sender.send(np.full(4, step, "i4"))
                await asyncio.sleep(0)

    async def both() -> list[list[int]]:
        sender, receiver = _edge(pair, "async", (4,), "i4")
        copied_sender, copied = _edge(pair, "async copies", copy=True)
        results = await asyncio.gather(
            consume(receiver), consume(copied), produce(sender), produce(copied_sender)
        )
        return [result for result in results if result is not None]

    assert asyncio.run(both()) == [list(range(30))] * 2


def test_a_cancelled_task_loses_no_array(pair: Pair) -> None:
    async def impatient(receiver: fw.TensorReceiver) -> None:
        async for _ in receiver:
            raise AssertionError("nothing was sent yet")

    async def cancel(receiver: fw.TensorReceiver) -> None:
        task = asyncio.create_task(impatient(receiver))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    sender, receiver = _edge(pair, "cancelled")
    asyncio.run(cancel(receiver))
    sender.send(np.arange(3)).wait(10)
    assert receiver.receive(10).tolist() == [0, 1, 2]


def test_reset_drops_what_came_before(pair: Pair) -> None:
    sender, receiver = _edge(pair, "abort", (4,), "i4")
    for step in range(5):
        sender.send(np.full(4, step, "i4")).wait(10)
    assert receiver.receive(10)[0] == 0
    receiver.reset()
    assert receiver.try_receive() is None
    sender.stats()  # receives the reset
    sender.send(np.full(4, 9, "i4")).wait(10)
    assert receiver.receive(10)[0] == 9
    stats = receiver.stats()
    assert stats.grants == stats.pushed + stats.dropped_stale + stats.revoked + stats.slots_granted


def test_ctrl_c_ends_receiving(pair: Pair) -> None:
    _, receiver = _edge(pair, "interrupted")
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
        receiver.receive()
    with pytest.raises(fw.DeadlineExceeded):
        receiver.receive(0.05)


def test_other_threads_run_while_one_receives(pair: Pair) -> None:
    sender, receiver = _edge(pair, "threads", (4,), "i4")
    taken: list[int] = []

    def take() -> None:
        taken.extend(int(array[0]) for array in receiver)

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(200):
        sender.send(np.full(4, step, "i4")).wait(10)
    sender.close()
    for thread in threads:
        thread.join(20)
    assert sorted(taken) == list(range(200))


def test_arrays_outlive_receiver_channel_and_device(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair()
    pushed = _edge(pair, "pushed", (1000,), "f8")
    offered = _edge(pair, "offered")
    arrays = []
    for sender, receiver in (pushed, offered):
        sender.send(np.arange(1000.0)).wait(10)
        arrays.append(receiver.receive(10))
        receiver.close()
        sender.close()
    for closing in (pair.near, pair.far, pair.left, pair.right):
        closing.close()
    del pushed, offered, sender, receiver
    gc.collect()
    for array in arrays:
        assert (array == np.arange(1000.0)).all()


def _echo(state: PeerState, count: int) -> dict[str, int]:
    with (
        fw.TensorReceiver(state.channel, "there") as incoming,
        fw.TensorSender(state.channel, "back", timeout=20) as outgoing,
    ):
        for _ in range(count):
            array = incoming.receive(20)
            outgoing.send(array * 2).wait(20)
            del array
        stats = outgoing.stats()
        return {"pushed": stats.pushed, "requests": stats.requests}


def test_two_processes_send_both_ways_over_one_channel(link: Link) -> None:
    link.peer.start(_echo, 20)
    with (
        fw.TensorReceiver(link.channel, "back", dtype="f4", max_bytes=1 << 20) as back,
        fw.TensorSender(link.channel, "there", timeout=20) as there,
    ):
        for step in range(20):
            array = np.full((step, 3), step, "f4")
            there.send(array).wait(20)
            doubled = back.receive(20)
            assert doubled.shape == (step, 3)
            assert (doubled == 2 * step).all()
            del doubled
        assert link.peer.result() == {"pushed": 20, "requests": 2}
        with pytest.raises(fw.EndOfStream):
            back.receive(20)


def _send_and_keep(state: PeerState) -> None:
    sender = fw.TensorSender(state.channel, "doomed", timeout=20)
    sender.send(np.arange(5000)).wait(20)
    state.kept["sender"] = sender


def _open_receiver(state: PeerState) -> None:
    state.kept["receiver"] = fw.TensorReceiver(state.channel, "patient", (4,), "i8")


def test_opens_a_sender_however_long_its_slots_take(link: Link) -> None:
    link.peer.run(_open_receiver)
    with contextlib.ExitStack() as stop:
        stop.enter_context(link.peer.stopped())
        # The edge is announced, its slots are opened only once the peer goes on.
        go_on = threading.Timer(0.5, stop.close)
        go_on.start()
        try:
            sender = fw.TensorSender(link.channel, "patient", timeout=20)
        finally:
            go_on.join()
    sender.send(np.arange(4)).wait(20)


def test_a_killed_sender_leaves_what_it_sent(link: Link) -> None:
    receiver = fw.TensorReceiver(link.channel, "doomed", slots=2, shape=5000, dtype="i8")
    link.peer.run(_send_and_keep)
    array = receiver.receive(20)
    link.peer.kill()
    with pytest.raises(fw.PeerDead):
        receiver.receive(20)
    assert (array == np.arange(5000)).all()


def test_a_stopped_sender_is_waited_for(link: Link) -> None:
    receiver = fw.TensorReceiver(link.channel, "doomed")
    with link.peer.stopped(), pytest.raises(fw.DeadlineExceeded):
        link.peer.start(_send_and_keep)
        receiver.receive(0.3)
    assert receiver.receive(20).shape == (5000,)
    link.peer.result()
