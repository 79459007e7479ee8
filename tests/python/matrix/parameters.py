"""What each parameter of a public call takes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import farwrite as fw
from matrix import nasty
from matrix.calls import ONES, ROWS, WORLD
from matrix.functions import MODULES
from matrix.nasty import (
    ARRAY,
    ARRAYS,
    DTYPE,
    REAL,
    SHAPE,
    SWITCH,
    TEXT,
    TIMEOUT,
    TRUTH,
    Domain,
    choice,
    function,
    optional,
    rate,
    whole,
)

UNSIGNED = 2**64 - 1
SIGNED = 2**63 - 1
SOME = 2**31
"""What no box of a test has so many of."""


def strangers() -> list[Any]:
    """The objects of the world that are closed, or belong to another peer."""
    return [WORLD[name] for name in WORLD if name.startswith(("closed ", "strange "))]


def handle(owner: str, *also: Any) -> Domain:
    """Take an object of this class that is open, and belongs to the same peer."""

    def accepts(value: Any) -> bool:
        return type(value).__name__ == owner and all(value is not one for one in strangers())

    names = (*ROWS, f"closed {owner}", f"strange {owner}")
    nobody = (None, 5, "text", b"", object(), np.ones(8), nasty.Hostile())
    return optional(Domain((*nobody, *map(nasty.OfTheWorld, names)), accepts), *also)


def either(one: Domain, other: Domain) -> Domain:
    """Take what either takes."""
    return Domain((*one.values, *other.values), lambda v: one.accepts(v) or other.accepts(v))


def keywords(*good: dict[str, Any]) -> Domain:
    """Take keywords of another call, which is tried with all it takes in its own place."""
    bad = ({"verbs": 1}, {"lanes": -1}, {"lanes": 2**64}, {"fabrics": 5}, {"name": b"x"})
    return Domain((*bad, *good), lambda v: v in good)


NUMBERS = {
    "lane": whole(0, 0),
    "tag": whole(0, 2**32 - 1),
    "notify": whole(0, 2**32 - 1, None),
    "offset": whole(0, 0),
    "slots": whole(1, 1024),
    "max_bytes": Domain(nasty.NUMBERS, lambda v: v is None),  # of a static edge
    "nbytes": whole(8, 8),  # of the segment of that name
    "buffers": whole(2, 64),
    "count": whole(0, 8, None),
    "delta_start": whole(0, 0),
    "x_start": whole(0, 0),
    "y_start": whole(0, 0),
    "source_start": whole(0, 0),
    "other_start": whole(0, 0),
    "min_version": replace(whole(0, UNSIGNED), waits=lambda v: v >= SOME),
    "version": whole(0, UNSIGNED),
    "since": whole(0, UNSIGNED, None),
    "epoch": whole(1, UNSIGNED, None),
    "step": whole(-SIGNED - 1, SIGNED, None),
    "worker": whole(0, 0),
    "workers": whole(1, 2**16),
    "target": whole(1, 2**40),
    "rank": whole(0, 0),
    "size": whole(1, 2**16),
    "period": whole(1, 2**31),
    "staleness": whole(0, 2**31),
    "threads": whole(0, 1024),
}
WORDS = {
    "name": TEXT,
    "endpoint": Domain(TEXT.values),
    "description": TEXT,
    "address": Domain((*TEXT.values, "127.0.0.1:99999", "127.0.0.1:0\0", ":", "1" * 5000)),
    "level": choice(),
    "consistent": choice("segment", "chunk"),
    "nonfinite": choice("refuse", "skip"),
    "rule": choice("master"),
    "takeover": SWITCH,
}
OTHERS = {
    "timeout": TIMEOUT,
    "shape": SHAPE,
    "dtype": DTYPE,
    "copy": SWITCH,
    "temporary": SWITCH,
    "exclusive": SWITCH,
    "new_epoch": SWITCH,
    "restore": SWITCH,
    "snapshot": SWITCH,
    "root": SWITCH,
    "answer": TRUTH,
    "arrays": ARRAYS,
    "gradients": ARRAYS,
    "like": nasty.MODEL,
    "model": nasty.MODEL,
    "types": Domain(
        (None, 5, "", "f4", b"<", [5], ["<f4", "<f4"], [None], object()), lambda v: v is None
    ),
    "array": ARRAY,
    "memory": ARRAY,
    "message": ARRAY,
    "source": ARRAY,
    "destination": ARRAY,
    "delta": ARRAY,
    "x": ARRAY,
    "out": optional(ARRAY, None),
    "callback": function(),
    "handler": function(None),
    "all_reduce": function(),
    "broadcast": function(),
    "client": handle("Client"),
    "channel": handle("Channel"),
    "fence": handle("Segment", None),
    "y": handle("Segment"),
    "other": handle("Segment"),
    "scale": REAL,
    "factor": REAL,
    "value": REAL,
    "a": REAL,
    "moving_rate": rate(1),
    "learning_rate": rate(1e38),
    "device": keywords({}, {"lanes": 1}),
}
BY_NAME: dict[str, Domain] = {**NUMBERS, **WORDS, **OTHERS}

# A part that begins at the second element is too long by one.
PART, REST = whole(0, 0, None), whole(0, 8, None)
PATHS = (None, 5, 1.5, "", "a\0b", b"a\0b", object(), [], True, nasty.Hostile())
ARRAY_OF_NOTHING = '{"array":'
"""Begins as the description of an array, and is none."""
NEWER = ((0, 0), (1, -1), (1, 2**64), (True, True), (1,), (1, 2, 3), ("1", "1"))


def _is_newer(value: Any) -> bool:
    """Whether it says which version of which epoch."""
    return value is None or (isinstance(value, tuple) and value == (1, 1) and value[0] is not True)


BY_CALL: dict[str, Domain] = {
    "Device.allocate.kind": choice("host"),
    "Channel.allocate.kind": choice("host"),
    "Device.publish.array": handle("RegisteredArray"),
    "Channel.publish.array": handle("RegisteredArray"),
    "Channel.open.descriptor": Domain(
        (None, 5, "text", b"", b"x" * 1000, bytearray(80), np.ones(8))
    ),
    "Channel.open.shape": optional(SHAPE, None),
    "Channel.read.out": ARRAY,
    "Client.publisher.takeover": choice(True, False, "force"),
    "Server.publisher.takeover": choice(True, False, "force"),
    "Channel.write.target": handle("RemoteArray"),
    "Channel.read.source": handle("RemoteArray"),
    "Client.attach.segment": either(whole(0, UNSIGNED), TEXT),
    "Client.create_bytes.description": Domain(
        (*TEXT.values, ARRAY_OF_NOTHING, f"{ARRAY_OF_NOTHING} 1}}"),
        lambda v: TEXT.accepts(v) and not v.startswith(ARRAY_OF_NOTHING),
    ),
    "Client.create.shape": SHAPE,
    "Client.create.dtype": optional(DTYPE, None),
    "Client.create.like": Domain((*nasty.NUMBERS, ONES), lambda v: v is None),  # beside a shape
    "farwrite.TensorReceiver.kind": choice("static", None),
    "AsyncSGD.step.gradients": nasty.GRADIENTS,
    "SEASGD.step.arrays": nasty.GRADIENTS,
    "farwrite.box.training.AsyncSGD.arrays": nasty.FLOATS,
    "farwrite.box.training.BoxGroup.arrays": nasty.FLOATS,
    "farwrite.box.serve.memory": either(whole(1 << 20, SIGNED), TEXT),
    "farwrite.box.serve.pool": either(whole(0, 8 << 20, None), TEXT),
    "farwrite.box.serve.listen": Domain((None, *TEXT.values), lambda v: v is None),
    "farwrite.box.serve.snapshot": Domain(PATHS, lambda v: v is None or (type(v) is str and not v)),
    "farwrite.box.serve.snapshot_every": Domain(
        (*nasty.NUMBERS, "soon", "1"), lambda v: v is None or (nasty.is_time(v) and v == 0)
    ),
    "farwrite.box.serve.restore": Domain(SWITCH.values, lambda v: SWITCH.accepts(v) and v != 1),
    "Server.close.snapshot": SWITCH,
}  # fmt: skip
for _call in ("write", "accumulate", "axpy", "copy_from"):
    BY_CALL[f"Segment.{_call}.start"] = BY_CALL[f"Posted.{_call}.start"] = PART
for _call in ("scale", "fill", "swap"):
    BY_CALL[f"Segment.{_call}.start"] = BY_CALL[f"Posted.{_call}.start"] = (
        REST if _call == "swap" else whole(0, 8)
    )
for _call in ("read", "read_with_version", "read_async"):
    BY_CALL[f"Segment.{_call}.start"] = REST
for _call in ("accumulate", "axpy"):  # of an array: what it has
    BY_CALL[f"Segment.{_call}.count"] = BY_CALL[f"Posted.{_call}.count"] = whole(8, 8, None)
for _owner in ("Segment", "Posted"):
    BY_CALL[f"{_owner}.copy_from.source"] = handle("Segment")
for _call in ("latest", "latest_async", "wait", "wait_async"):
    BY_CALL[f"Subscriber.{_call}.newer_than"] = Domain((*nasty.NUMBERS, *NEWER), _is_newer)
for _call in ("wait", "wait_async"):
    BY_CALL[f"Event.{_call}.count"] = whole(0, UNSIGNED, None)

_TEXTS = {"listen", "port_range", "name", "huge_pages", "verbs.device", "metrics"}
_SWITCHES = {"encrypt", "prefault", "verbs.relaxed_ordering", "verbs.use_immediate"}


def option_of_a_device(name: str) -> Domain:
    """Take what the core says; `test_arguments.py` has what each option refuses."""
    if name == "verbs":
        return verbs_options()
    if name in _SWITCHES:
        # That to encrypt needs a token as well.
        switch = SWITCH if name != "encrypt" else Domain(SWITCH.values, SWITCH.accepts)
        return optional(switch, None)
    if name == "fabrics":
        return optional(nasty.FABRICS, None)
    values = TEXT.values if name in _TEXTS else nasty.NUMBERS
    return Domain(values, lambda v: not isinstance(v, (bool, np.bool_, list, dict, complex)))


def verbs_options() -> Domain:
    """Take objects of which each field has what its option takes; one is tried at a time."""
    fields = {
        one.name: option_of_a_device(f"verbs.{one.name}")
        for one in dataclasses.fields(fw.VerbsOptions)
    }

    def accepts(value: Any) -> bool:
        return value is None or (
            isinstance(value, fw.VerbsOptions)
            and all(getattr(value, name) is None or fields[name].accepts(getattr(value, name))
                    for name in fields)
        )  # fmt: skip

    given = [fw.VerbsOptions(**{name: v}) for name in fields for v in fields[name].values]
    return Domain((None, 5, "mlx5_0", {}, object(), nasty.Hostile(), *given), accepts)


def domain_of(call: str, parameter: str) -> Domain | None:
    """Return what a parameter takes; None if nothing has said so."""
    if call == "farwrite.Device":
        return option_of_a_device(parameter)
    return BY_CALL.get(f"{call}.{parameter}", BY_NAME.get(parameter))


def is_internal(entry: object) -> bool:
    """Whether its documentation says that programs do not call it."""
    documentation = inspect.getdoc(entry) or ""
    return "Internal." in documentation or "constructor is internal" in documentation


def parameters(target: Any, entry: str) -> Iterator[str]:
    """The parameters of a public method or function, by inspection."""
    found = getattr(target, entry)
    special = entry.startswith("__")  # does what Python's protocols say
    if special or is_internal(found) or not callable(found):
        return
    yield from (name for name in inspect.signature(found).parameters if name != "self")


def owners() -> dict[str, Any]:
    """The classes and the modules of the table, by name."""
    classes = {
        name: getattr(module, name)
        for module in MODULES.values()
        for name in module.__all__
        if name in ROWS
    }
    return {**classes, **MODULES}
