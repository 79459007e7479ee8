"""Steps with one large tensor, on command: large.py ... MEGABYTES TIMEOUT_MS. Prints JSON lines.

For every line on stdin the worker takes the largest element of a variable of the ps.
"""

import json
import sys

from client import ARGUMENTS, target, tf

v1 = tf.compat.v1


def main():
    v1.disable_eager_execution()
    count, timeout = int(ARGUMENTS[0]) * 2**18, int(ARGUMENTS[1])
    with tf.device("/job:ps/task:0"):
        variable = v1.get_variable("v", initializer=tf.fill([count], 7.0), use_resource=True)
    with tf.device("/job:worker/task:0"):
        largest = tf.reduce_max(variable.read_value())
    options = v1.RunOptions(timeout_in_ms=timeout)
    session = v1.Session(target("worker"))
    session.run(variable.initializer)
    print("ready", flush=True)
    for _ in sys.stdin:
        try:
            said = {"value": float(session.run(largest, options=options))}
        except tf.errors.OpError as error:
            said = {"error": type(error).__name__, "message": error.message[:500]}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
