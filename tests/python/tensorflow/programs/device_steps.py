"""Steps over the devices of a ps and a worker: device_steps.py ... MASTER ELEMENTS.

Says "built", and answers each line on stdin with a line of JSON. "run" or "run TIMEOUT_MS" runs a
step: its result is right, or this is the error with which it ended. "storm COUNT" runs steps with
random deadlines, and says how many ended how. "reopen" begins a new session.
"""

import collections
import contextlib
import json
import random
import sys

import numpy as np
from client import ARGUMENTS, target, tf
from tensorflow.core.protobuf import config_pb2

v1 = tf.compat.v1
MASTER, ELEMENTS = ARGUMENTS[0], int(ARGUMENTS[1])
LATEST_DEADLINE = 60  # milliseconds


def build():
    """What is fed, and what comes of it: a tensor of the ps' device doubled on the worker's device.

    And its shape, which is in the host's memory on both.
    """
    with tf.device("/job:ps/task:0/device:CPU:0"):
        step = v1.placeholder(tf.float32, [])
        filled = tf.range(float(ELEMENTS)) + step
    with tf.device("/job:ps/task:0/device:FARTEST:0"):
        sent = tf.identity(filled, name="sent")
        shape = tf.shape(sent, name="shape")
    with tf.device("/job:worker/task:0/device:FARTEST:0"):
        return step, [tf.multiply(sent, 2.0), shape + 1]


def open_session():
    config = v1.ConfigProto()
    # So that the shape, which is known, is sent all the same.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    return v1.Session(target(MASTER), config=config)


def run(session, step, results, number, timeout):
    options = v1.RunOptions(timeout_in_ms=timeout)
    try:
        doubled, shape = session.run(results, {step: float(number)}, options=options)
    except tf.errors.OpError as error:
        return {"error": type(error).__name__, "message": error.message}
    wanted = 2.0 * (np.arange(ELEMENTS, dtype=np.float32) + np.float32(number))
    return {"right": np.array_equal(doubled, wanted) and list(shape) == [ELEMENTS + 1]}


def storm(session, step, results, count):
    outcomes = collections.Counter()
    deadlines = random.Random(ELEMENTS)
    for number in range(count):
        ended = run(session, step, results, number, deadlines.randint(1, LATEST_DEADLINE))
        outcomes[ended.get("error", f"right: {ended.get('right')}")] += 1
    return outcomes


def main():
    v1.disable_eager_execution()
    step, results = build()
    session = open_session()
    print("built", flush=True)
    for number, line in enumerate(sys.stdin):
        what, *count = line.split()
        if what == "reopen":
            with contextlib.suppress(tf.errors.OpError):
                session.close()
            session = open_session()
            answer = {}
        elif what == "storm":
            answer = storm(session, step, results, int(*count))
        else:
            answer = run(session, step, results, number, int(*count))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
