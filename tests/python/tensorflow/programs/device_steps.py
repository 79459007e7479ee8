"""Steps over the devices of a ps and a worker: device_steps.py ... MASTER ELEMENTS.

Says "built", and answers each line on stdin with a line of JSON. "run" or "run TIMEOUT_MS" runs a
step: its result is right, or this is the error with which it ended. "reopen" begins a new session.
"""

import contextlib
import json
import sys

import numpy as np
from client import ARGUMENTS, target, tf

v1 = tf.compat.v1
MASTER, ELEMENTS = ARGUMENTS[0], int(ARGUMENTS[1])


def build():
    """What is fed, and a tensor of the ps' device doubled on the worker's device."""
    with tf.device("/job:ps/task:0/device:CPU:0"):
        step = v1.placeholder(tf.float32, [])
        filled = tf.range(float(ELEMENTS)) + step
    with tf.device("/job:ps/task:0/device:FARTEST:0"):
        sent = tf.identity(filled, name="sent")
    with tf.device("/job:worker/task:0/device:FARTEST:0"):
        return step, tf.multiply(sent, 2.0, name="doubled")


def run(session, step, doubled, number, timeout):
    options = v1.RunOptions(timeout_in_ms=timeout)
    try:
        value = session.run(doubled, {step: float(number)}, options=options)
    except tf.errors.OpError as error:
        return {"error": type(error).__name__, "message": error.message}
    wanted = 2.0 * (np.arange(ELEMENTS, dtype=np.float32) + np.float32(number))
    return {"right": bool(np.array_equal(value, wanted))}


def main():
    v1.disable_eager_execution()
    step, doubled = build()
    session = v1.Session(target(MASTER))
    print("built", flush=True)
    for number, line in enumerate(sys.stdin):
        what, *timeout = line.split()
        if what == "reopen":
            with contextlib.suppress(tf.errors.OpError):
                session.close()
            session = v1.Session(target(MASTER))
            answer = {}
        else:
            answer = run(session, step, doubled, number, int(*timeout))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
