"""Tensors between worker 0 and each ps, first from the ps, then to it.

Answers for each ps and direction with what the steps gave, or how the first of them failed.
"""

import threading

import numpy as np
from client import ADDRESSES, answer, taken, target, tf

v1 = tf.compat.v1
SIZE = 40_000
STEPS = 3


def build(source, sink):
    """Name a step that reads on `sink` what `source` holds, and what makes that."""
    with tf.device(source):
        large = v1.get_variable("large", initializer=np.ones(SIZE, np.float32), use_resource=True)
        small = v1.get_variable("small", initializer=2.0, use_resource=True)
        text = tf.strings.as_string(small.read_value())
        dead, alive = v1.cond(
            small.read_value() > 3.0,
            lambda: (large.read_value(), small + 1.0),
            lambda: (small.read_value() * tf.ones([SIZE]), small + 2.0),
        )
    with tf.device(sink):
        step = [
            tf.reduce_sum(large.read_value()) + small.read_value(),
            tf.reduce_sum(dead) + alive,
            tf.strings.length(text),
        ]
    return step


def run(job, index, source, sink, results, name):
    with tf.Graph().as_default():
        step = build(source, sink)
        init = v1.global_variables_initializer()
        options = v1.ConfigProto(operation_timeout_in_ms=90_000)
        with v1.Session(target(job, index), config=options) as session:
            session.run(init)
            try:
                results[name] = [[float(x) for x in taken(session.run, step)] for _ in range(STEPS)]
            except tf.errors.OpError as error:
                results[name] = [type(error).__name__, error.message]


def main():
    v1.disable_eager_execution()
    results = {}
    for direction in ("from", "to"):
        threads = []
        for index in range(len(ADDRESSES["ps"])):
            ps, worker = f"/job:ps/task:{index}", "/job:worker/task:0"
            one = ("worker", 0, ps, worker) if direction == "from" else ("ps", index, worker, ps)
            threads.append(
                threading.Thread(target=run, args=(*one, results, f"{direction} ps{index}"))
            )
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    answer(results)


if __name__ == "__main__":
    main()
