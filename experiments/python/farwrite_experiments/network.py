"""A communication-bound step: all variables of AlexNet to a worker, and all gradients back."""

from __future__ import annotations

from typing import Any

from farwrite.errors import Internal
from farwrite_bench.tensor.graph import CONSUMER, PRODUCER, OpenCase, session_config
from farwrite_bench.tensor.plan import Case
from farwrite_experiments.networks.network import ALEXNET

NETWORK = "network"
"""The name of the step in a `Case`."""

NETWORK_BYTES = ALEXNET.bytes
"""Of the variables of TF-slim's AlexNet v2 with ten classes, on images of 224 x 224."""
DECAY = 1e-3
"""Small, so that no value becomes denormal, because computing with such values is slow."""


class NetworkCase(OpenCase):
    """A session whose steps move every variable to the worker and a gradient of each back.

    The gradient is the variable times a constant, without the computation of a layer. A step is
    therefore communication, one pass over the bytes in the worker, and the update on the parameter
    server. A larger batch would add computation and no bytes.

    The size of the case is about the bytes of all variables, at most `NETWORK_BYTES`. With a
    smaller size every layer has fewer outputs. Nothing depends on the transport or on the number;
    over `LOCAL` the case is not measured.
    """

    def __init__(self, tf: Any, transport: str, target: str, case: Case, number: int) -> None:
        scale = min(case.size / NETWORK_BYTES, 1.0)
        variables, updates = [], []
        with tf.Graph().as_default() as graph:
            for place, (*inputs, outputs) in enumerate(each.shape for each in ALEXNET.variables):
                with tf.device(PRODUCER):
                    first = tf.ones((*inputs, max(int(outputs * scale), 1)))
                    variable = tf.compat.v1.get_variable(
                        f"v{place}", initializer=first, use_resource=True
                    )
                    value = variable.read_value()
                with tf.device(CONSUMER):
                    gradient = value * DECAY
                with tf.device(PRODUCER):
                    updates.append(variable.assign_sub(gradient, read_value=False))
                variables.append(variable)
            idle = []
            for task in (PRODUCER, CONSUMER):
                with tf.device(task):
                    idle.append(tf.no_op())
            step = tf.group(updates)
            initialize = tf.compat.v1.global_variables_initializer()
            self._destroy = tf.group(
                [tf.raw_ops.DestroyResourceOp(resource=each.handle) for each in variables]
            )
            read = variables[0].read_value()
        self._session = tf.compat.v1.Session(target, graph=graph, config=session_config(tf))
        self._session.run(initialize)
        self._session.run(step)
        found = float(self._session.run(read).ravel()[0])
        if abs(found - (1.0 - DECAY)) > 1e-6:
            raise Internal(f"bench: a step gave {found} instead of {1.0 - DECAY}; report this")
        self._full = self._session.make_callable(step)
        self._empty = self._session.make_callable(idle)
