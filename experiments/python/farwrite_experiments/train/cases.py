"""Which cases a run measures, and how long its turns are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from farwrite.errors import InvalidArgument
from farwrite_experiments.networks.network import MNIST_MLP, SIX
from farwrite_experiments.rpc_over_fabric import RPC_OVER_FABRIC
from farwrite_experiments.train.pace import Pace
from farwrite_experiments.train.plan import EMULATED, MIRRORED, MODEL, REAL, Case

MNIST_BATCH = 100


def cases(arguments: argparse.Namespace, pace: Pace) -> list[Case]:
    """Return the cases of the command line.

    Raises
    ------
    InvalidArgument
        If the options exclude each other.
    """
    models: Sequence[str] = arguments.model or [network.key for network in SIX]
    made = []
    for model in models:
        is_mnist = model == MNIST_MLP.key
        compute = arguments.compute or (REAL if is_mnist else EMULATED)
        if is_mnist and compute == EMULATED:
            raise InvalidArgument(
                "bench train: the paper gives no computation time for mnist_mlp, so it cannot be"
                " emulated; leave --compute out"
            )
        made += [
            Case(
                model,
                compute,
                batch,
                servers=arguments.servers,
                workers=workers,
                sync=not (arguments.asynchronous or is_mnist),
                mode=arguments.mode,
            )
            for workers in arguments.workers
            for batch in arguments.batch or ((MNIST_BATCH,) if is_mnist else pace.batches)
        ]
    for case in made:
        _check(case, arguments.transport or ())
    return made


def _check(case: Case, transports: Sequence[str]) -> None:
    if case.mode == MODEL and (case.workers != 2 or not case.sync):
        raise InvalidArgument(
            "bench train: --mode model splits a model over two workers that step together; leave"
            " --workers and --asynchronous out"
        )
    if case.mode == MIRRORED and RPC_OVER_FABRIC.key in transports:
        raise InvalidArgument(
            "bench train: rpc-over-fabric carries no collectives, so not --mode mirrored; leave"
            " --transport rpc-over-fabric out"
        )
    if case.mode == MIRRORED and (case.workers < 2 or not case.sync):
        raise InvalidArgument(
            "bench train: --mode mirrored needs at least two workers that step together; give"
            " --workers 2 or more, and leave --asynchronous out"
        )
