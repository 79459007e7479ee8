"""Control calls of every kind and size: control.py ... STEPS. The master is the worker's.

Its calls to the ps are RegisterGraph with a large constant, RunGraph with a large feed and a large
fetch, short steps, a step that is cancelled by its timeout, and one that fails.
"""

import numpy as np
from client import ARGUMENTS, answer, digest, taken, target, tf

v1 = tf.compat.v1
STEPS = int(ARGUMENTS[0])
LARGE = 3_000_000


def main():
    v1.disable_eager_execution()
    constant = np.arange(100_000, dtype=np.float32)
    with tf.device("/job:ps/task:0"):
        fed = v1.placeholder(tf.float32, [None])
        # A variable at its end, so that nothing folds the constant.
        scale = v1.get_variable("scale", initializer=1.0, use_resource=True)
        doubled = fed * 2.0 * scale
        known = tf.constant(constant) + scale
        step = scale.assign_add(0.0)
        queue = v1.FIFOQueue(1, [tf.float32])
        endless = queue.dequeue()
        wrong = v1.assert_equal(scale, 2.0, message="scale is not 2")
    results = {}
    with v1.Session(target("worker")) as session:
        session.run(v1.global_variables_initializer())
        for _ in range(STEPS):
            taken(session.run, step)
        results["large"] = digest(taken(session.run, doubled, {fed: np.ones(LARGE, np.float32)}))
        results["known"] = digest(taken(session.run, known))
        for name, fetch, timeout in (("endless", endless, 500), ("wrong", wrong, 0)):
            try:
                session.run(fetch, options=v1.RunOptions(timeout_in_ms=timeout))
            except tf.errors.OpError as error:
                results[name] = type(error).__name__
        results["after"] = float(taken(session.run, step))
    answer(results)


if __name__ == "__main__":
    main()
