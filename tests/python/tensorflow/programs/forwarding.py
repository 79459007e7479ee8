"""Received tensors that are sent on: forwarding.py ... Answers each line of stdin with digests.

A is the ps, B worker 0, C and D are workers 1 and 2. A makes tensors, B passes them on, C and D
compute with them. A line is a number of steps and a case's name.
"""

import sys

from client import answer, digest, taken, target, tf

v1 = tf.compat.v1
COUNT = 40_000
ROWS = 4
CROWD = 10
A, B, C, D = "/job:ps/task:0", *[f"/job:worker/task:{n}" for n in range(3)]


def make(step, count=COUNT):
    with tf.device(A):
        return tf.random.stateless_uniform([count], [7, step])


def used(tensor):
    """Both other tasks compute with what B sends them."""
    with tf.device(C):
        doubled = tensor * 2.0
    with tf.device(D):
        raised = tensor + 1.0
    return [doubled, raised]


def chain(step):
    with tf.device(B):
        passed = tf.identity(make(step))
    return {"chain": used(passed)}


def variable(step):
    with tf.device(B):
        kept = v1.get_variable("kept", shape=[COUNT], use_resource=True)
        keep = kept.assign(make(step), read_value=False)
        read = used(kept.read_value())
        # Copied on write: what was received stays as it is.
        update = kept.assign_add(tf.ones([COUNT]), read_value=False)
    return {"keep": keep, "read": read, "update": update}


def crowd(step):
    """More variables that keep what was received than there is room for copies."""
    keep, read = [], []
    for number in range(CROWD):
        with tf.device(B):
            kept = v1.get_variable(f"kept_{number}", shape=[COUNT], use_resource=True)
            keep.append(kept.assign(make(step + number), read_value=False))
            read += used(kept.read_value())
    return {"keep_crowd": keep, "read_crowd": read}


def queue(step):
    with tf.device(B):
        line = v1.FIFOQueue(100, [tf.float32], [[COUNT]], shared_name="line")
        put = line.enqueue(make(step))
        get = used(line.dequeue())
    return {"put": put, "get": get}


def rows(step):
    """Slices of one received tensor are sent, and so is what is computed of them."""
    with tf.device(A):
        whole = tf.reshape(make(step, ROWS * COUNT), [ROWS, COUNT])
    with tf.device(B):
        taken_out = tf.unstack(tf.identity(whole))
        negated = [-row for row in taken_out]
    return {"rows": [value for row in taken_out + negated for value in used(row)]}


def alone(step):
    """Nothing but the kernel refers to the slice, and it is no memory to compute in."""
    whole = make(step, 2 * COUNT)
    with tf.device(B):
        computed = tf.nn.relu(tf.slice(whole, [COUNT], [COUNT]))
    return {"alone": used(computed)}


def main():
    v1.disable_eager_execution()
    step = v1.placeholder(tf.int32, [])
    cases = {}
    for make_case in (chain, variable, crowd, queue, rows, alone):
        cases.update(make_case(step))
    # Grappler would take out what passes a tensor on.
    config = v1.ConfigProto(operation_timeout_in_ms=60_000)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    session = v1.Session(target("worker", 1), config=config)
    number = 0
    answer("ready")
    for line in sys.stdin:
        times, name = line.split()
        results = []
        for _ in range(int(times)):
            number += 1
            values = taken(session.run, cases[name], {step: number})
            results.append(digest([value for value in values or () if value is not None]))
        answer(results)
    session.close()


if __name__ == "__main__":
    main()
