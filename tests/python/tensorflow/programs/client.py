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


def digest(value):
    """Name a value so that two runs can be compared bit for bit."""
    import numpy as np

    if isinstance(value, (list, tuple)):
        return [digest(one) for one in value]
    array = np.asarray(value)
    raw = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return f"{array.dtype}{list(array.shape)}:{hashlib.sha256(raw).hexdigest()[:16]}"


def answer(facts):
    sys.stdout.write("\n" + json.dumps(facts) + "\n")
    sys.stdout.flush()
