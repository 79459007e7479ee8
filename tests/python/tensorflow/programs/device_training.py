"""Between-graph training: variables on the host of a ps, computation on two workers' devices.

Two towers train one model by turns, so that the order is known. Prints a digest of all losses and
of what was learned.
"""

import numpy as np
from client import answer, digest, target, tf

v1 = tf.compat.v1
ROWS, INPUTS, HIDDEN = 48, 600, 5
STEPS = 12
RATE = 1e-4


def build(worker, weights, out):
    """One worker's step, whose tensors cross from the ps' host to the worker's device and back."""
    host = f"/job:worker/task:{worker}/device:CPU:0"
    device = f"/job:worker/task:{worker}/device:FARTEST:{worker}"
    with tf.device(host):
        seed = v1.placeholder(tf.int32, [])
        inputs = tf.random.stateless_normal([ROWS, INPUTS], [seed, worker])
        labels = tf.reduce_sum(inputs, 1, keepdims=True)
    with tf.device(device):
        hidden = tf.matmul(inputs, weights.read_value())
        missed = tf.matmul(hidden, out.read_value()) - labels
        to_out = tf.matmul(hidden, missed, transpose_a=True)
        back = tf.matmul(missed, out.read_value(), transpose_b=True)
        to_weights = tf.matmul(inputs, back, transpose_a=True)
    with tf.device(host):
        loss = tf.reduce_mean(tf.square(missed))
    with tf.device("/job:ps/task:0/device:CPU:0"):
        train = tf.group(
            weights.assign_sub(RATE * to_weights, read_value=False),
            out.assign_sub(RATE * to_out, read_value=False),
        )
    return seed, loss, train


def main():
    v1.disable_eager_execution()
    with tf.device("/job:ps/task:0/device:CPU:0"):
        generator = np.random.default_rng(1)
        weights, out = (
            v1.get_variable(
                name,
                initializer=generator.normal(0, 0.1, shape).astype(np.float32),
                use_resource=True,
            )
            for name, shape in (("weights", [INPUTS, HIDDEN]), ("out", [HIDDEN, 1]))
        )
    towers = [build(worker, weights, out) for worker in range(2)]
    sessions = [v1.Session(target("worker", worker)) for worker in range(2)]
    sessions[0].run(v1.global_variables_initializer())
    losses = []
    for number in range(2 * STEPS):
        session, (seed, loss, train) = sessions[number % 2], towers[number % 2]
        losses.append(session.run([loss, train], {seed: 7})[0])
    assert losses[-2] < losses[0] and losses[-1] < losses[1]
    answer(digest([*losses, *sessions[1].run([weights.read_value(), out.read_value()])]))


if __name__ == "__main__":
    main()
