"""A step that ends when its server does, or this client: session_waits.py ... SCHEME WHAT.

WHAT is "feeds", then 64 MiB are fed to a step that waits for ever. Says "running", and answers with
the error that ended the step and how long that took after a line on stdin.
"""

import os
import sys
import threading
import time

import numpy as np
from client import ADDRESSES, ARGUMENTS, answer, tf

v1 = tf.compat.v1
BYTES = 64 << 20


def main():
    v1.disable_eager_execution()
    fed = v1.placeholder(tf.uint8, [None])
    endless = v1.FIFOQueue(1, [tf.uint8]).dequeue() + fed[0]
    session = v1.Session(f"{ARGUMENTS[0]}://{ADDRESSES['worker'][0]}")
    value = np.ones(BYTES, np.uint8)
    session.run(fed[0], {fed: value})
    ended = []

    def run():
        try:
            session.run(endless, {fed: value})
        except tf.errors.OpError as error:
            ended.append([type(error).__name__, error.message, time.monotonic()])

    waiting = threading.Thread(target=run, daemon=True)
    waiting.start()
    waiting.join(1)
    print("running", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    waiting.join(30)
    name, message, when = ended[0] if ended else ["nothing", "", began + 30]
    answer({"error": name, "message": message, "seconds": when - began})
    os._exit(0)  # to close the session is a call of gRPC's, which waits until a server is there


if __name__ == "__main__":
    main()
