"""Ordinary fork Pools in a process that serves: of its own arrays, and of what a peer sent.

forked_pool.py PROTOCOL ADDRESSES [peer]. With `peer`, a worker sends the arrays.
"""

import multiprocessing
import os

import numpy as np
from client import ADDRESSES, ARGUMENTS, PROTOCOL, answer, tf

SIZE = 300_000  # float32: 1.2 MB, far above what stays in plain memory
SECONDS = 120  # bounds a hang
ARRAYS = {}


def look(name):
    """In a child: the sum of one array, then of the same after the child wrote into it."""
    array = ARRAYS[name]
    before = float(array.sum(dtype="float64"))
    if not array.flags.writeable:
        return before, 0.0
    array[:] = 1.0
    return before, float(array.sum(dtype="float64"))


def peek(name):
    return float(ARRAYS[name].sum(dtype="float64"))


def who(_):
    return os.getpid()


def stats():
    if PROTOCOL == "grpc":
        return {}
    import farwrite.tensorflow

    return dict(farwrite.tensorflow.stats())


def own_arrays():
    """A batch of a dataset, and a tensor: what the README of any input pipeline shows."""
    numbers = tf.data.Dataset.from_tensor_slices(np.arange(4 * SIZE, dtype="float32")).batch(SIZE)
    ARRAYS["batch"] = next(numbers.as_numpy_iterator())
    ARRAYS["tensor"] = np.asarray(tf.range(SIZE, dtype="float32") + 1.0)


def received_array(step, count):
    """A tensor that the worker made and lent."""
    with tf.device("/job:localhost/task:0/device:CPU:0"):
        ARRAYS[f"received{count}"] = np.asarray(tf.identity(step(float(count))))


def main():
    step = None
    if ARGUMENTS == ["peer"]:
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec(ADDRESSES), protocol=PROTOCOL
        )

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def step(start):
            with tf.device("/job:worker/task:0"):
                return tf.range(SIZE, dtype=tf.float32) + start

        for count in range(3):
            received_array(step, count)
    else:
        server = tf.distribute.Server(
            {"alone": ["127.0.0.1:0"]}, job_name="alone", task_index=0, protocol=PROTOCOL
        )
        server.target  # noqa: B018
    own_arrays()
    names = sorted(ARRAYS)
    expected = {name: float(ARRAYS[name].sum(dtype="float64")) for name in names}
    forking = multiprocessing.get_context("fork")
    held = []
    with forking.Pool(2) as pool, forking.Pool(2) as late:
        children = set(pool.map_async(who, range(50)).get(SECONDS))
        seen = dict(zip(names, pool.map_async(look, names).get(SECONDS), strict=True))
        after = {name: float(ARRAYS[name].sum(dtype="float64")) for name in names}
        # The parent goes on: it drops what it had and makes as much again, many times.
        ARRAYS.clear()
        for count in range(30):
            own_arrays()
            if step is not None:
                for number in range(3):
                    received_array(step, number + 1000 + count)
            ARRAYS.clear()
            held.append(stats().get("arena", {}).get("held_back", 0))
        late_seen = dict(zip(names, late.map_async(peek, names).get(SECONDS), strict=True))
        alive = set(pool.map_async(who, range(50)).get(SECONDS))
    answer(
        {
            "expected": expected,
            "seen": {name: seen[name][0] for name in names},
            "written": {name: seen[name][1] for name in names},
            "after": after,
            "late": late_seen,
            "respawned": sorted(alive - children) if len(children) == 2 else [],
            "held": held,
            "stats": stats(),
        }
    )


if __name__ == "__main__":
    main()
