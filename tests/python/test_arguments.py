"""Every wrong argument is an error of Farwrite's that names the operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair

LONE = "\udc80"  # a surrogate that UTF-8 cannot express
TIMEOUTS = [float("nan"), -1, -1e300, "5", "", [1], 10**400]

Call = Callable[[Pair, Any], object]


class Exporter:
    """An array whose library gives `device` as DLPack's, or raises such an error."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def __dlpack_device__(self) -> Any:
        if self._device in (ValueError, RuntimeError):
            raise self._device("no device")
        return self._device

    def __dlpack__(self, **_: object) -> Any:
        return np.ones(4, "u1").__dlpack__()


# PyTorch raises ValueError for a tensor on "meta".
DEVICES = [ValueError, RuntimeError, None, 5, (1,), ("a", "b"), (2**70, 0), (-3, 0)]

# Each takes the pair, and one of the values beside it, which cannot be right.
CALLS: dict[str, tuple[Call, list[Any]]] = {
    "connect to": (lambda p, v: p.left.connect(v), [5, None, LONE, "", "nowhere", b"x"]),
    "connect within": (lambda p, v: p.left.connect(p.right.endpoint, v), TIMEOUTS),
    "accept": (lambda p, v: p.left.accept(v), TIMEOUTS),
    "allocate": (lambda p, v: p.left.allocate(v), [-1, 2**62, (2**40, 2**40), "5", None, 1.5]),
    "allocate dtype": (lambda p, v: p.left.allocate(2**62, v), ["f8", "nonsense", object, LONE]),
    "allocate dimensions": (lambda p, v: p.left.allocate((1,) * v), [65, 1000]),
    "allocate for a peer": (lambda p, v: p.near.allocate(v, "f8"), [-1, 2**62, "5", None]),
    "publish name": (lambda p, v: p.left.publish(v, p.left.allocate(1)), [5, None, LONE, b"x"]),
    "publish array": (lambda p, v: p.left.publish("x", v), [None, 5, np.ones(3)]),
    "publish on a channel": (lambda p, v: p.near.publish("x", v), [None, np.ones(3)]),
    "unpublish": (lambda p, v: p.left.unpublish(v), [5, None, LONE]),
    "contains": (lambda p, v: p.left.contains(v), [None, 5, "text"]),
    "register": (lambda p, v: p.left.register(v), [None, 5, "text"]),
    "lookup": (lambda p, v: p.near.lookup(v, 0.01), [5, None, LONE, b"x"]),
    "lookup bytes": (lambda p, v: p.near.lookup_bytes(v, 0.01), [5, None, LONE]),
    "lookup within": (lambda p, v: p.near.lookup("x", v), TIMEOUTS),
    "open": (lambda p, v: p.near.open(v), [None, 5, "text", b""]),
    "write source": (
        lambda p, v: p.near.write(v, _inbox(p)),
        [None, 5, "text", [1], *(Exporter(device) for device in DEVICES)],
    ),
    "write target": (lambda p, v: p.near.write(np.ones(4, "u1"), v), [None, 5, "x", np.ones(4)]),
    "write offset": (
        lambda p, v: p.near.write(np.ones(4, "u1"), _inbox(p), v),
        [None, -1, 2**64, "0", 1.5, float("nan")],
    ),
    "write tag": (
        lambda p, v: p.near.write(np.ones(4, "u1"), _inbox(p), notify=v),
        [-1, 2**32, "1", 1.5],
    ),
    "write lane": (
        lambda p, v: p.near.write(np.ones(4, "u1"), _inbox(p), lane=v),
        [-1, 1, 2**64, None, "0"],
    ),
    "read lane": (lambda p, v: p.near.read(_outbox(p), np.empty(4, "u1"), lane=v), [-1, 1, None]),
    "read source": (lambda p, v: p.near.read(v, np.empty(4, "u1")), [None, 5, np.ones(4)]),
    "read within": (lambda p, v: _inbox(p).read(timeout=v), TIMEOUTS),
    "notify": (lambda p, v: p.near.notify(v), [None, -1, 2**32, "1", 1.5]),
    "notify lane": (lambda p, v: p.near.notify(1, lane=v), [None, -1, 7, 2**32]),
    "send": (lambda p, v: p.near.send(v), [None, 5, "text", np.array([object()])]),
    "send lane": (lambda p, v: p.near.send(b"x", lane=v), [None, -1, 7, 2**32]),
    "send tag": (lambda p, v: p.near.send(b"x", v), [None, -1, 2**32]),
    "wait for a notification": (lambda p, v: p.near.wait_notification(v), TIMEOUTS),
    "handler": (lambda p, v: p.near.on_notification(v), [5, "text", []]),
    "wait": (lambda p, v: p.near.flush().wait(v), TIMEOUTS),
    "close a channel": (lambda p, v: p.near.close(v), TIMEOUTS),
    "close a device": (lambda p, v: p.left.close(v), TIMEOUTS),
    "close an array": (lambda p, v: p.left.allocate(1).close(v), TIMEOUTS),
    "receiver channel": (lambda p, v: fw.TensorReceiver(v, "edge"), [None, 5]),
    "receiver name": (lambda p, v: fw.TensorReceiver(p.near, v), [None, 5, LONE]),
    "receiver shape": (
        lambda p, v: fw.TensorReceiver(p.near, "e", shape=v, dtype="f4"),
        [-1, 2**64, (0, 2**62), (1,) * 70, "5", 1.5],
    ),
    "receiver slots": (lambda p, v: fw.TensorReceiver(p.near, "e", slots=v), [None, -1, 2**32]),
    "receiver copy": (lambda p, v: fw.TensorReceiver(p.near, "e", copy=v), [None, "perhaps", 2]),
    "receiver kind": (lambda p, v: fw.TensorReceiver(p.near, "e", kind=v), ["odd", 5]),
    "sender channel": (lambda p, v: fw.TensorSender(v, "edge"), [None, 5]),
    "sender name": (lambda p, v: fw.TensorSender(p.near, v, 0.01), [None, 5, LONE]),
    "sender within": (lambda p, v: fw.TensorSender(p.near, "e", v), TIMEOUTS),
    "log level": (lambda p, v: fw.set_log_level(v), [None, 5, "", LONE]),
}


def _inbox(pair: Pair) -> fw.RemoteArray:
    pair.far.publish("inbox", pair.far.allocate(16))
    return pair.near.lookup("inbox")


def _outbox(pair: Pair) -> fw.RemoteArray:
    pair.right.publish("outbox", pair.right.allocate(16))
    return pair.near.lookup("outbox")


@pytest.mark.parametrize("operation", CALLS)
def test_a_wrong_argument_is_an_error_that_names_the_operation(operation: str, pair: Pair) -> None:
    call, values = CALLS[operation]
    for value in values:
        with pytest.raises(fw.Error) as raised:
            call(pair, value)
        assert isinstance(
            raised.value,
            (fw.InvalidArgument, fw.OutOfRange, fw.ResourceExhausted, fw.ProtocolError),
        ), (value, raised.value)
        assert len(str(raised.value)) > 20, value


WRONG_OPTIONS: dict[str, list[Any]] = {
    "listen": [5, "", "nowhere", LONE, b"127.0.0.1:0"],
    "port": [-1, 65536, "7777", 1.5],
    "fabrics": ["shm,tcp", "tcp", [], 5, ["pigeon"], [LONE], [5]],
    "lanes": [0, 65, -1, "1", 1.5],
    "pollers": [0, 65, 2**40],
    "spin": [float("nan"), -1, "soon", 10**400],
    "token": ["", 5, LONE],
    "encrypt": ["perhaps", 2, 0.5, []],
    "prefault": ["perhaps", -1],
    "send_limit": [0, 1, (2 << 20) - 1, -1, 2**63, "8X", b"8M"],
    "receive_limit": [0, 1, 2**64],
    "receive_limit_per_peer": [1],
    "huge_pages": [5, "", "enormous", True],
    "numa_node": [-2, 1024, "0"],
    "send_limit_per_peer": [0, -1],
    "segment_bytes": [0, -1],
    "receive_segment_bytes": [0, -1],
    "memory_idle_time": [-1, "x"],
    "detection_time": [0, -1, float("inf"), "x"],
    "handshake_timeout": [0, 1e-9, "99ms", -1, "x"],
    "host_timeout": [0, "999ms", -1, "x"],
    "name": [5, "", "n" * 256, LONE],
    "metrics": [5, "", "nowhere", "65536", LONE],
    "data_port": [-1, 65536],
    "port_range": [5, "", "7000", "7000-", "0-5", "9-8", "1-65536", LONE],
    "verbs": [5, "mlx5_0", {"device": "mlx5_0"}, fw.VerbsOptions],
}
WRONG_VERBS_OPTIONS: dict[str, list[Any]] = {
    "device": [5, "", LONE],
    "port": [0, 256, "1"],
    "chunk_bytes": [0, "8X"],
    "use_immediate": ["perhaps"],
}


@pytest.mark.parametrize("option", WRONG_OPTIONS)
def test_a_wrong_option_is_an_error_that_names_it(option: str) -> None:
    for value in WRONG_OPTIONS[option]:
        with pytest.raises(fw.InvalidArgument) as raised:
            fw.Device(**{option: value}).close()
        assert option in str(raised.value), value


@pytest.mark.parametrize("option", WRONG_VERBS_OPTIONS)
def test_a_wrong_option_of_verbs_is_an_error_that_names_it(option: str) -> None:
    for value in WRONG_VERBS_OPTIONS[option]:
        with pytest.raises(fw.InvalidArgument) as raised:
            fw.Device(verbs=fw.VerbsOptions(**{option: value})).close()
        assert f"verbs.{option} " in str(raised.value), value


@pytest.mark.parametrize("call", [fw.Device, fw.box.serve, partial(fw.box.connect, "127.0.0.1:1")])
def test_a_keyword_that_is_none_is_an_error_that_names_the_right_one(call: Any) -> None:
    with pytest.raises(TypeError, match=r"give verbs=farwrite\.VerbsOptions\(gid_index=\.\.\.\)"):
        call(verbs_gid_index=3)
    with pytest.raises(TypeError, match=r"'token_file' is no keyword .*; set FARWRITE_TOKEN_FILE"):
        call(token_file="secret")
    with pytest.raises(TypeError, match=r"'lane' is no keyword .* did you mean 'lanes'"):
        call(lane=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'lanes'"):
        fw.VerbsOptions(lanes=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("word", ["off", "OFF", "no", "false", "0", False, 0, np.False_])
def test_a_switch_is_read_and_not_tested_for_truth(word: Any) -> None:
    # Without a token, no device opens that is to encrypt.
    verbs = fw.VerbsOptions(relaxed_ordering=word, use_immediate=word)
    with fw.Device(encrypt=word, prefault=word, verbs=verbs):
        pass
    for on in ("on", "Yes", "true", "1", True, 1, np.True_):
        with pytest.raises(fw.InvalidArgument, match="token"):
            fw.Device(encrypt=on).close()


def test_the_advice_for_fabrics_as_text_works() -> None:
    with pytest.raises(fw.InvalidArgument) as raised:
        fw.Device(fabrics="shm,tcp")
    advice = str(raised.value).partition("give a list: ")[2]
    assert advice == "['shm', 'tcp']"
    with fw.Device(fabrics=["shm", "tcp"]):
        pass


def test_a_numa_node_that_the_machine_lacks_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "bind memory to NUMA node: the kernel refuses node 1023.*; "
    with pytest.raises(fw.Error, match=said):
        fw.Device(numa_node=1023)
    monkeypatch.setenv("FARWRITE_NUMA_NODE", "1023")
    with pytest.raises(fw.Error, match=said):
        fw.Device()


def test_no_numa_node_may_be_said() -> None:
    with fw.Device(numa_node=-1):
        pass


@pytest.mark.parametrize(
    ("variable", "text"),
    [("FARWRITE_COPY_KERNEL", "warp-drive"), ("FARWRITE_LOG", "loud")],
)
def test_a_variable_of_the_process_is_not_ignored(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(fw.InvalidArgument, match=f"{variable}={text}"):
        fw.Device()
