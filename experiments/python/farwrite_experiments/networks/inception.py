"""Inception-v3 as TF-slim defines it, with the auxiliary classifier."""

from __future__ import annotations

from farwrite_experiments.networks.outline import SAME, VALID, Outline, Value


def inception_v3(net: Outline, images: Value, classes: int) -> list[Value]:
    """Add the network; the outputs are the classifier's and the auxiliary one's."""
    value = _chain(net, images, "", "1a 3x3 32 half", "2a 3x3 32 valid", "2b 3x3 64")
    value = net.pool(value, 3, 2)
    value = _chain(net, value, "", "3b 1x1 80 valid", "4a 3x3 192 valid")
    value = net.pool(value, 3, 2)
    for name, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
        value = net.joined(
            [
                _chain(net, value, name, "b0 1x1 64"),
                _chain(net, value, name, "b1a 1x1 48", "b1b 5x5 64"),
                _chain(net, value, name, "b2a 1x1 64", "b2b 3x3 96", "b2c 3x3 96"),
                _pooled(net, value, name, pooled),
            ]
        )
    inner = _chain(net, value, "6a", "b1a 1x1 64", "b1b 3x3 96")
    value = net.joined(
        [
            _chain(net, value, "6a", "b0 3x3 384 half"),
            _chain(net, inner, "6a", "b1c 3x3 96 half"),
            net.pool(value, 3, 2),
        ]
    )
    for name, n in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        wide = [f"b1a 1x1 {n}", f"b1b 1x7 {n}", "b1c 7x1 192"]
        deep = [f"b2a 1x1 {n}", f"b2b 7x1 {n}", f"b2c 1x7 {n}", f"b2d 7x1 {n}", "b2e 1x7 192"]
        value = net.joined(
            [
                _chain(net, value, name, "b0 1x1 192"),
                _chain(net, value, name, *wide),
                _chain(net, value, name, *deep),
                _pooled(net, value, name, 192),
            ]
        )
    beside = value
    value = net.joined(
        [
            _chain(net, value, "7a", "b0a 1x1 192", "b0b 3x3 320 half"),
            _chain(
                net, value, "7a", "b1a 1x1 192", "b1b 1x7 192", "b1c 7x1 192", "b1d 3x3 192 half"
            ),
            net.pool(value, 3, 2),
        ]
    )
    for name in ("7b", "7c"):
        plain = _chain(net, value, name, "b0 1x1 320")
        first = _chain(net, value, name, "b1a 1x1 384")
        first = _split(net, first, name, "b1b 1x3 384", "b1c 3x1 384")
        second = _chain(net, value, name, "b2a 1x1 448", "b2b 3x3 384")
        second = _split(net, second, name, "b2c 1x3 384", "b2d 3x1 384")
        value = net.joined([plain, first, second, _pooled(net, value, name, 192)])
    beside = net.pool(beside, 5, 3, mean=True)
    beside = _chain(net, beside, "", "aux1 1x1 128", "aux2 5x5 768 valid")
    beside = net.convolution(beside, "auxlogits", (1, 1), classes, activated=False)
    value = net.pool(value, value.shape[0], 1, mean=True)
    value = net.convolution(value, "logits", (1, 1), classes, activated=False)
    return [value, beside]


def _chain(net: Outline, value: Value, prefix: str, *convolutions: str) -> Value:
    """Add convolutions, one after another.

    Each is a name, a kernel, and its outputs. It is padded, unless it is "valid" or takes "half" of
    the places.
    """
    for each in convolutions:
        name, kernel, outputs, *how = each.split()
        height, width = map(int, kernel.split("x"))
        value = net.convolution(
            value,
            prefix + name,
            (height, width),
            int(outputs),
            stride=2 if "half" in how else 1,
            padding=VALID if how else SAME,
            normalized=True,
        )
    return value


def _split(net: Outline, value: Value, prefix: str, *convolutions: str) -> Value:
    """Add convolutions beside each other."""
    return net.joined([_chain(net, value, prefix, each) for each in convolutions])


def _pooled(net: Outline, value: Value, name: str, outputs: int) -> Value:
    mean = net.pool(value, 3, 1, padding=SAME, mean=True)
    return _chain(net, mean, name, f"b3 1x1 {outputs}")
