"""Inception-v3 as TF-slim defines it, with the auxiliary classifier."""

from __future__ import annotations

from collections.abc import Sequence

from farwrite_experiments.networks.outline import VALID, Outline, Value

_Branch = Sequence[tuple[str, tuple[int, int], int]]
"""Convolutions, one after another: the suffix of the name, the kernel, the outputs."""


def inception_v3(net: Outline, images: Value, classes: int) -> list[Value]:
    """Add the network; the outputs are the classifier's and the auxiliary one's."""
    value = _normal(net, images, "1a", (3, 3), 32, stride=2, padding=VALID)
    value = _normal(net, value, "2a", (3, 3), 32, padding=VALID)
    value = _normal(net, value, "2b", (3, 3), 64)
    value = net.pool(value, 3, 2)
    value = _normal(net, value, "3b", (1, 1), 80, padding=VALID)
    value = _normal(net, value, "4a", (3, 3), 192, padding=VALID)
    value = net.pool(value, 3, 2)
    for name, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
        value = _block_35(net, value, name, pooled)
    value = _reduced_17(net, value)
    for name, inner in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        value = _block_17(net, value, name, inner)
    beside = value
    value = _reduced_8(net, value)
    for name in ("7b", "7c"):
        value = _block_8(net, value, name)
    beside = net.pool(beside, 5, 3, mean=True)
    beside = _normal(net, beside, "aux1", (1, 1), 128)
    beside = _normal(net, beside, "aux2", (5, 5), 768, padding=VALID)
    beside = net.convolution(beside, "auxlogits", (1, 1), classes, activated=False)
    value = net.pool(value, value.shape[0], 1, mean=True)
    value = net.convolution(value, "logits", (1, 1), classes, activated=False)
    return [value, beside]


def _normal(
    net: Outline,
    value: Value,
    name: str,
    kernel: tuple[int, int],
    outputs: int,
    *,
    stride: int = 1,
    padding: str = "SAME",
) -> Value:
    return net.convolution(
        value, name, kernel, outputs, stride=stride, padding=padding, normalized=True
    )


def _branch(net: Outline, value: Value, name: str, branch: _Branch) -> Value:
    for suffix, kernel, outputs in branch:
        value = _normal(net, value, f"{name}{suffix}", kernel, outputs)
    return value


def _pooled(net: Outline, value: Value, name: str, outputs: int) -> Value:
    return _normal(
        net, net.pool(value, 3, 1, padding="SAME", mean=True), f"{name}b3", (1, 1), outputs
    )


def _block_35(net: Outline, value: Value, name: str, pooled: int) -> Value:
    return net.joined(
        [
            _branch(net, value, name, [("b0", (1, 1), 64)]),
            _branch(net, value, name, [("b1a", (1, 1), 48), ("b1b", (5, 5), 64)]),
            _branch(
                net, value, name, [("b2a", (1, 1), 64), ("b2b", (3, 3), 96), ("b2c", (3, 3), 96)]
            ),
            _pooled(net, value, name, pooled),
        ]
    )


def _reduced_17(net: Outline, value: Value) -> Value:
    inner = _branch(net, value, "6a", [("b1a", (1, 1), 64), ("b1b", (3, 3), 96)])
    return net.joined(
        [
            _normal(net, value, "6ab0", (3, 3), 384, stride=2, padding=VALID),
            _normal(net, inner, "6ab1c", (3, 3), 96, stride=2, padding=VALID),
            net.pool(value, 3, 2),
        ]
    )


def _block_17(net: Outline, value: Value, name: str, inner: int) -> Value:
    return net.joined(
        [
            _branch(net, value, name, [("b0", (1, 1), 192)]),
            _branch(
                net,
                value,
                name,
                [("b1a", (1, 1), inner), ("b1b", (1, 7), inner), ("b1c", (7, 1), 192)],
            ),
            _branch(
                net,
                value,
                name,
                [
                    ("b2a", (1, 1), inner),
                    ("b2b", (7, 1), inner),
                    ("b2c", (1, 7), inner),
                    ("b2d", (7, 1), inner),
                    ("b2e", (1, 7), 192),
                ],
            ),
            _pooled(net, value, name, 192),
        ]
    )


def _reduced_8(net: Outline, value: Value) -> Value:
    narrow = _branch(net, value, "7a", [("b0a", (1, 1), 192)])
    narrow = _normal(net, narrow, "7ab0b", (3, 3), 320, stride=2, padding=VALID)
    wide = _branch(
        net, value, "7a", [("b1a", (1, 1), 192), ("b1b", (1, 7), 192), ("b1c", (7, 1), 192)]
    )
    wide = _normal(net, wide, "7ab1d", (3, 3), 192, stride=2, padding=VALID)
    return net.joined([narrow, wide, net.pool(value, 3, 2)])


def _block_8(net: Outline, value: Value, name: str) -> Value:
    plain = _branch(net, value, name, [("b0", (1, 1), 320)])
    first = _branch(net, value, name, [("b1a", (1, 1), 384)])
    first = _split(net, first, f"{name}b1", "b", "c")
    second = _branch(net, value, name, [("b2a", (1, 1), 448), ("b2b", (3, 3), 384)])
    second = _split(net, second, f"{name}b2", "c", "d")
    return net.joined([plain, first, second, _pooled(net, value, name, 192)])


def _split(net: Outline, value: Value, name: str, flat: str, tall: str) -> Value:
    return net.joined(
        [
            _normal(net, value, f"{name}{flat}", (1, 3), 384),
            _normal(net, value, f"{name}{tall}", (3, 1), 384),
        ]
    )
