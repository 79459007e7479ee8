"""Asynchronous training over the parameter box.

>>> from farwrite.box.training import SEASGD

`SEASGD` averages the weights of workers elastically. `HybridSEASGD` does so between groups, whose
members train in step. `AsyncSGD` adds gradients to shared weights, with bounded staleness.
`Termination` stops all workers together.

They take lists of NumPy arrays. `read_weights` reads the shared weights in other programs.
`farwrite.box.training.keras` and `farwrite.box.training.torch` adapt `SEASGD` to Keras and PyTorch.
A program imports them by these names.
"""

from __future__ import annotations

from farwrite.box.training.async_sgd import AsyncSGD
from farwrite.box.training.group import BoxGroup
from farwrite.box.training.hybrid import HybridSEASGD
from farwrite.box.training.seasgd import SEASGD
from farwrite.box.training.termination import Termination
from farwrite.box.training.weights import read_weights

__all__ = ["SEASGD", "AsyncSGD", "BoxGroup", "HybridSEASGD", "Termination", "read_weights"]


def __dir__() -> list[str]:
    """List the interface alone, and not the modules that hold it."""
    loaded = {"keras", "torch"} & globals().keys()  # a program imports them by these names
    return sorted({*__all__, *loaded})
