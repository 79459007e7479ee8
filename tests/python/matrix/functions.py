"""The rows of the functions and constructors of the packages, which belong to no handle."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import farwrite as fw
from farwrite import box as boxes
from farwrite.box import training
from matrix import calls
from matrix.calls import ONES, ROWS, WORLD
from matrix.kinds import ALONE, LATE, LEFT_OVER, NO_ANSWER, Row, fact, own, peer

_numbers = itertools.count()


def another() -> str:
    """A name that nothing has used, and with which no other one begins."""
    return f"name {next(_numbers):06}"


def once(make: Callable[[str], Any]) -> None:
    """Make and close a training helper under a name that nothing has used, and free all of it."""
    name = another()
    make(name).close(calls.SHORT)
    client = WORLD["Client"]
    for info in client.list():
        if info.name.startswith(name):
            client.attach(info.key).free()


def weights() -> list[Any]:
    return [ONES.copy()]


def hybrid(module: Any) -> Any:
    """Make the root of a group that has no other member."""
    return module.HybridSEASGD(
        WORLD["Client"], "easgd", weights(),
        all_reduce=id, broadcast=id, root=True, timeout=calls.SHORT,
    )  # fmt: skip


def connect(module: Any) -> None:
    fabrics = [WORLD["fabric"]]
    module.connect(WORLD["box"], timeout=calls.SHORT, fabrics=fabrics).close()


FUNCTIONS: dict[str, dict[str, Row]] = {
    "farwrite": {
        "Device": own(lambda m: m.Device().close(), **ALONE),
        "TensorReceiver": peer(
            lambda m: m.TensorReceiver(WORLD["Channel"], another(), (8,), "float32").close(),
            stopped="returns",
        ),
        "TensorSender": peer(lambda m: m.TensorSender(WORLD["Channel"], "nobody", 0.01), none=LATE),
        "set_log_level": fact(lambda m: m.set_log_level("error")),
        "log_level": fact(),
        "info": fact(),
    },
    "farwrite.box": {
        "add_scaled": fact(lambda m: m.add_scaled(ONES.copy(), ONES)),
        "connect": peer(connect, killed=NO_ANSWER, closed=NO_ANSWER, restarted="returns", **ALONE),
        "serve": own(lambda m: m.serve(memory="8M", pool="1M").close(), **ALONE),
    },
    "farwrite.box.training": {
        "SEASGD": peer(
            lambda m: m.SEASGD(WORLD["Client"], "easgd", weights()).close(calls.SHORT), **LEFT_OVER
        ),
        "AsyncSGD": peer(
            lambda m: once(lambda name: m.AsyncSGD(WORLD["Client"], name, weights(), 0.1))
        ),
        "BoxGroup": peer(
            lambda m: m.BoxGroup(
                WORLD["Client"], "group 2", weights(), 0, 1, timeout=calls.SHORT
            ).close()
        ),
        "HybridSEASGD": peer(lambda m: hybrid(m).close(calls.SHORT), **LEFT_OVER),
        "Termination": peer(
            lambda m: once(lambda name: m.Termination(WORLD["Client"], name, 1, 5))
        ),
        "read_weights": peer(
            lambda m: m.read_weights(WORLD["Client"], "easgd", weights(), calls.SHORT)
        ),
    },
}
MODULES: dict[str, ModuleType] = {
    "farwrite": fw,
    "farwrite.box": boxes,
    training.__name__: training,
}

TABLE: dict[str, dict[str, Row]] = {**FUNCTIONS, **ROWS}
"""Every public call, by the class or the module that it belongs to."""
