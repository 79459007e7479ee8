"""How long a step takes that moves a tensor between devices: device_edge_times.py ... MIB.

Says "built". Answers each line COUNT on stdin with the seconds of so many steps that move MIB, and
of as many that move one element.
"""

import json
import sys
import time

from client import ARGUMENTS, target, tf

v1 = tf.compat.v1
ELEMENTS = {"large": int(ARGUMENTS[0]) << 18, "small": 1}


def build(name, elements):
    """A step that moves a variable of the ps' device to the worker's device."""
    with tf.device("/job:ps/task:0/device:CPU:0"):
        initial = tf.fill([elements], 0.5)
    with tf.device("/job:ps/task:0/device:FARTEST:0"):
        variable = v1.get_variable(name, initializer=initial, use_resource=True)
        read = variable.read_value()
    with tf.device("/job:worker/task:0/device:FARTEST:0"):
        return tf.identity(read).op


def seconds(session, step):
    begun = time.perf_counter()
    session.run(step)
    return time.perf_counter() - begun


def main():
    v1.disable_eager_execution()
    steps = {name: build(name, elements) for name, elements in ELEMENTS.items()}
    session = v1.Session(target("worker"))
    session.run(v1.global_variables_initializer())
    print("built", flush=True)
    for line in sys.stdin:
        taken = {name: [] for name in steps}
        for _ in range(int(line)):
            for name, step in steps.items():
                taken[name].append(seconds(session, step))
        print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main()
