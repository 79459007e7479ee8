"""The names of the networks that `bench train` and `bench sizes` measure."""

from __future__ import annotations

from farwrite_experiments.networks.network import NETWORKS

NAMES = {key: network.name for key, network in NETWORKS.items()}


def name_of(model: str) -> str:
    """Return the name of a network; one that is not known keeps its key."""
    return NAMES.get(model, model)
