"""Many steps: soak.py ... COUNT. Tells when it is warm, and waits to be told to go on."""

import sys

import numpy as np
from client import ARGUMENTS, answer, taken, target, tf

v1 = tf.compat.v1


def main():
    v1.disable_eager_execution()
    with tf.device("/job:ps/task:0"):
        variable = v1.get_variable("v", initializer=np.zeros(50_000, np.float32), use_resource=True)
        small = tf.constant(1.0) + tf.cast(tf.timestamp() * 0, tf.float32)
    with tf.device("/job:worker/task:0"):
        change = variable.read_value() * 0.5 + small
    update = variable.assign_add(change)
    with v1.Session(target("worker")) as session:
        session.run(v1.global_variables_initializer())
        step = session.make_callable(update.op)
        for count in map(int, ARGUMENTS):
            for _ in range(count):
                taken(step)
            print(f"did {count}", flush=True)
            sys.stdin.readline()
    answer({})


if __name__ == "__main__":
    main()
