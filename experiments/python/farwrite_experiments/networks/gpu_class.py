"""How long other layers would take on the accelerator of the main paper, from its own table.

VGG-16 gives the time of a multiplication, and LSTM the time of a recurrent step: 80 of them take as
long as the paper's sample, whatever the batch, because small matrices leave an accelerator idle.
"""

from __future__ import annotations

from farwrite_experiments.networks.network import LSTM, SEQUENCE, VGG16

RECURRENT_STEP_MS = LSTM.compute_ms / SEQUENCE
"""Milliseconds of one step of a recurrent layer, forward and backward."""


def milliseconds(multiplications: float) -> float:
    """Return the time, forward and backward, of so many multiplications of the forward pass."""
    return VGG16.compute_ms * multiplications / _of_vgg16()


def equivalent(milliseconds_taken: float) -> int:
    """Return the multiplications of the forward pass that take so long."""
    return round(_of_vgg16() * milliseconds_taken / VGG16.compute_ms)


def _of_vgg16() -> int:
    return sum(layer.operations for layer in VGG16.layers)
