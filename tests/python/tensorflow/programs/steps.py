"""A small training that goes on whatever happens: steps.py ... COUNT. Prints "running", then JSON.

Every step reads a large variable of the ps on the worker and adds a large tensor back. When a step
fails, it says with what, opens a session anew and goes on. It says "running" after the first steps
of every session, and ends when stdin has and COUNT steps worked after the last failure.
"""

import contextlib
import sys
import threading
import time

import numpy as np
from client import ARGUMENTS, answer, taken, target, tf

v1 = tf.compat.v1
COUNT = int(ARGUMENTS[0])
SIZE = 300_000


def build():
    with tf.device("/job:ps/task:0"):
        variable = v1.get_variable("v", initializer=np.zeros(SIZE, np.float32), use_resource=True)
        small = v1.get_variable("s", initializer=0.0, use_resource=True)
    with tf.device("/job:worker/task:0"):
        # In float64, which counts any number of steps.
        whole = tf.reduce_sum(tf.cast(variable.read_value(), tf.float64))
        total = whole + tf.cast(small.read_value(), tf.float64)
        change = tf.ones([SIZE]) + 0.0 * tf.cast(total, tf.float32)
    with tf.device("/job:ps/task:0"):
        update = tf.group(variable.assign_add(change), small.assign_add(1.0))
    return total, update


def open_session(init):
    """A new session whose variables are there, once the cluster is whole again."""
    options = v1.ConfigProto(operation_timeout_in_ms=20_000)
    give_up = time.monotonic() + 60
    while True:
        session = v1.Session(target("worker"), config=options)
        try:
            session.run(init)
            return session
        except tf.errors.OpError:
            session.close()
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)


def main():
    v1.disable_eager_execution()
    failures = []
    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), told.set()), daemon=True).start()
    total, update = build()
    init = v1.global_variables_initializer()
    session = open_session(init)
    done = since_failure = 0
    while since_failure < COUNT or not told.is_set():
        try:
            taken(session.run, update)
            done += 1
            since_failure += 1
        except tf.errors.OpError as error:
            failures.append([type(error).__name__, error.message[:3000]])
            with contextlib.suppress(tf.errors.OpError):
                session.close()
            session = open_session(init)
            since_failure = 0
        if since_failure == 5:
            print("running", flush=True)
    value = float(session.run(total))
    session.close()
    expected = float(since_failure) * SIZE + since_failure
    answer({"failures": failures, "steps": done, "value": value, "expected": expected})


if __name__ == "__main__":
    main()
