"""Edges of several kinds between ps and worker: landing.py ... Prints "steady", then JSON.

Steps until every edge that repeats has its slots, then, once a line comes on stdin, as many again.
In the first of these an edge grows every few steps, and outgrows its slots.
Each step checks what came, so that one torn or taken for another is seen.
"""

import sys

import numpy as np
from client import answer, target, tf

v1 = tf.compat.v1
STEPS = 30
LENGTHS = (2_049, 70_000, 1_000_000)
LOOPS = 6  # more than slots of one edge
GROWS_EVERY = 6


def build():
    step = v1.placeholder(tf.float32, [])
    size = v1.placeholder(tf.int32, [])
    phase = v1.placeholder(tf.int32, [])
    checks = []
    with tf.device("/job:ps/task:0"):
        static = [tf.fill([length], step + index) for index, length in enumerate(LENGTHS)]
        dynamic = tf.fill([size], step)
        growing = tf.fill([phase], step)
        bound = v1.get_variable("ref", initializer=np.zeros(50_000, np.float32), use_resource=False)
        moved = v1.assign(bound, tf.fill([50_000], step))
        looped = tf.fill([20_000], step)
    with tf.device("/job:worker/task:0"):
        for index, (tensor, length) in enumerate(zip(static, LENGTHS, strict=True)):
            checks.append(tf.reduce_all(tf.equal(tensor, step + index)))
            checks.append(tf.equal(tf.size(tensor), length))
        checks.append(tf.reduce_all(tf.equal(dynamic, step)))
        checks.append(tf.equal(tf.size(dynamic), size))
        checks.append(tf.reduce_all(tf.equal(growing, step)))
        checks.append(tf.equal(tf.size(growing), phase))
        checks.append(tf.reduce_all(tf.equal(moved + 1.0, step + 1.0)))
        # A variable that takes what it received for its value holds the slot for as long.
        kept = v1.get_variable("kept", shape=[70_000], use_resource=True)
        keep = kept.assign(static[1])
        with tf.control_dependencies([keep]):
            checks.append(tf.reduce_all(tf.equal(kept.read_value(), step + 1)))
        back = [tensor * 2.0 for tensor in static]
    with tf.device("/job:ps/task:0"):
        for index, tensor in enumerate(back):
            checks.append(tf.reduce_all(tf.equal(tensor, 2.0 * (step + index))))

    def body(i, total, stack):
        with tf.device("/job:ps/task:0"):
            one = looped + tf.cast(i, tf.float32)
        with tf.device("/job:worker/task:0"):
            return i + 1, total + tf.reduce_sum(one), stack.write(i, one)

    with tf.device("/job:worker/task:0"):
        stack = tf.TensorArray(tf.float32, LOOPS, element_shape=[20_000])
        _, total, stack = tf.while_loop(
            lambda i, *_: i < LOOPS, body, [0, 0.0, stack], parallel_iterations=LOOPS
        )
        rows = stack.stack()
        wanted = step + tf.cast(tf.range(LOOPS), tf.float32)
        checks.append(tf.reduce_all(tf.equal(rows, wanted[:, None])))
        checks.append(tf.greater(total, -1.0))
    with tf.device("/job:worker/task:0"):
        return (step, size, phase), tf.reduce_all(tf.stack(checks))


def main():
    v1.disable_eager_execution()
    (step, size, phase), right = build()
    session = v1.Session(target("worker"))
    session.run(v1.global_variables_initializer())
    wrong = []
    for number in range(2 * STEPS):
        if number == STEPS:
            print("steady", flush=True)
            sys.stdin.readline()
        feeds = {
            step: float(number),
            size: 3_000 + 500 * number,
            phase: 20_000 * (1 + min(number, STEPS) // GROWS_EVERY),
        }
        if not session.run(right, feeds):
            wrong.append(number)
    print("done", flush=True)
    sys.stdin.readline()
    session.close()
    answer({"wrong": wrong})


if __name__ == "__main__":
    main()
