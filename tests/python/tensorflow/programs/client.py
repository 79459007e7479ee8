"""What the client programs share."""

import hashlib
import json
import sys

from task import load

PROTOCOL = sys.argv[1]
ADDRESSES = json.loads(sys.argv[2])
ARGUMENTS = sys.argv[3:]
tf = load(PROTOCOL)


def target(job, index=0):
    return f"grpc://{ADDRESSES[job][index]}"


def taken(run, *arguments):
    """Call run(*arguments) until TensorFlow takes the step.

    It refuses one whose requests have ids that it has seen, and draws them on a new thread a step
    from a generator with 2^32 seeds: of runs with 10,000 steps, one in a hundred is hit.
    """
    while True:
        try:
            return run(*arguments)
        except tf.errors.AbortedError as error:
            if "request was received twice" not in error.message:
                raise


def digest(value):
    """Name a value so that two runs can be compared bit for bit."""
    import numpy as np

    if isinstance(value, (list, tuple)):
        return [digest(one) for one in value]
    array = np.asarray(value)
    raw = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return f"{array.dtype}{list(array.shape)}:{hashlib.sha256(raw).hexdigest()[:16]}"


def settle():
    """Wait until every task has returned from the eager operations that this program gave it.

    A value may be here before the task that sent it has counted it.
    """
    from tensorflow.python.eager import context

    context.context().sync_executors()


def answer(facts):
    sys.stdout.write("\n" + json.dumps(facts) + "\n")
    sys.stdout.flush()
