"""Calls of eager contexts of every kind and size: eager_control.py ... OPERATIONS.

Prints "running" in the middle and goes on when its input ends. Answers with what came of each, and
with what it was told of errors.
"""

import sys
import threading
import time

import numpy as np
from client import ADDRESSES, ARGUMENTS, PROTOCOL, answer, digest, tf
from tensorflow.python.eager import cancellation

OPERATIONS = int(ARGUMENTS[0])
A, B = "/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"
LOCAL = "/job:chief/replica:0/task:0/device:CPU:0"


def connect():
    tf.config.experimental_connect_to_cluster(
        tf.train.ClusterSpec(ADDRESSES), protocol=PROTOCOL, job_name="chief"
    )


def kind_of_error(run):
    try:
        run()
    except tf.errors.OpError as error:
        return type(error).__name__
    return None


def chain():
    """Each operation needs the one before, and nothing waits for any but the last."""
    with tf.device(A):
        value = tf.zeros([8])
        for _ in range(OPERATIONS):
            value = value + 1.0
    return value.numpy()


def large_before_small():
    """What is sent with the first call is large; the calls behind it must not overtake it."""
    results = []
    for seed in range(4):
        sent = np.random.default_rng(seed).random(3_000_000).astype(np.float32)
        with tf.device(A):
            total = tf.reduce_sum(tf.constant(sent) * 2.0)
            total = total + 1.0
        results.append(float(total))
    return results


def failing_operation():
    """The error is told, ends what was sent behind it, and not what comes later."""

    def run():
        with tf.device(A):
            wrong = tf.reshape(tf.ones([6]), [4])
            for _ in range(5):
                wrong = wrong + 1.0
        wrong.numpy()

    def recovered():
        with tf.device(A):
            return tf.ones([2]).numpy().tolist()

    # TensorFlow may let some operations fail that follow at once.
    results = [kind_of_error(run)]
    for _ in range(100):
        if kind_of_error(recovered) is None:
            return [*results, recovered()]
    return results


def large_behind_an_error():
    """The error of an operation ends what is being sent behind it."""

    def run(side):
        with tf.device(A):
            slow = tf.linalg.matmul(tf.ones([side, side]), tf.ones([side, side]))
            wrong = tf.reshape(slow, [4])
            for _ in range(6):
                # An attribute is part of the request.
                tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="n" * (8 << 20))
        wrong.numpy()

    return sorted({kind_of_error(lambda side=side: run(side)) for side in range(100, 1100, 50)})


def function_over_two_tasks():
    @tf.function
    def step(value):
        with tf.device(A):
            grown = value * 2.0 + 1.0
        with tf.device(B):
            return tf.sqrt(grown) + tf.reduce_sum(grown)

    with tf.device(LOCAL):
        return [step(tf.fill([100], float(n))).numpy() for n in range(OPERATIONS)]


def cancelled_function():
    """Both tasks have begun when the function is cancelled."""
    with tf.device(A):
        queue = tf.queue.FIFOQueue(2, [tf.float32])

    @tf.function
    def wait():
        with tf.device(B):
            one = tf.random.stateless_uniform([], [1, 2])
        with tf.device(A):
            return queue.dequeue() + one

    manager = cancellation.CancellationManager()
    waiting = manager.get_cancelable_function(wait.get_concrete_function())
    threading.Timer(1.0, manager.start_cancel).start()
    began = time.monotonic()
    kind = kind_of_error(waiting)
    with tf.device(A):
        # The caller first learns that it is cancelled, over gRPC as well: the callee may take one.
        for _ in range(2):
            queue.enqueue(7.0)
    return [kind, time.monotonic() - began < 20, float(wait()) > 7.0]


def main():
    connect()
    results = {
        name.__name__: digest(name()) if name in (chain, function_over_two_tasks) else name()
        for name in (
            chain,
            large_before_small,
            failing_operation,
            large_behind_an_error,
            function_over_two_tasks,
            cancelled_function,
        )
    }
    print("running", flush=True)
    sys.stdin.read()
    connect()  # closes the contexts and makes others
    results["again"] = digest(chain())
    answer(results)


if __name__ == "__main__":
    main()
