"""What clients feed and fetch, by a session of a target: session_target.py ... SCHEME STEPS.

SCHEME is "grpc" or "grpc+farwrite". The answer has what a program sees, which must not depend on
it, and under "stats" the counters of this process, if it has the plug-in.
"""

import re
import sys
import threading

import numpy as np
from client import ADDRESSES, ARGUMENTS, answer, digest, taken, tf

v1 = tf.compat.v1
SCHEME = ARGUMENTS[0]
STEPS = int(ARGUMENTS[1])
TARGET = f"{SCHEME}://{ADDRESSES['worker'][0]}"
SHAPES = ((), (0,), (3,), (2, 3), (0, 3))
DTYPES = "half bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"
DTYPES += " complex64 complex128 string"


def values(dtype, shape):
    numbers = np.arange(int(np.prod(shape))).reshape(shape) % 100
    if dtype == tf.string:
        return np.vectorize(lambda number: b"text" * int(number), otypes=[object])(numbers)
    return numbers.astype(dtype.as_numpy_dtype)


def failure(run, *arguments, **options):
    """Return the error's class, its payloads, and the end of its message without numbers."""
    try:
        return digest(run(*arguments, **options))
    except Exception as error:
        message = str(getattr(error, "message", error)).split("\nRecent warning and error logs")[0]
        message = re.sub(r"[0-9]+", "#", "\n".join(message.splitlines()[-3:]))
        payloads = getattr(error, "experimental_payloads", {})
        return [type(error).__name__, sorted(payloads), message]


def of_every_dtype(session):
    fed, fetched, feeds = [], [], {}
    for name in DTYPES.split():
        dtype = tf.as_dtype(name)
        for shape in SHAPES:
            fed.append(v1.placeholder(dtype, shape))
            fetched.append(tf.identity(fed[-1]))
            feeds[fed[-1]] = values(dtype, shape)
    one_by_one = [
        taken(session.run, out, {tensor: feeds[tensor]})
        for tensor, out in zip(fed, fetched, strict=True)
    ]
    return {
        "at once": digest(session.run(fetched, feeds)),
        "one by one": digest(one_by_one),
        "fed": digest(session.run(fed, feeds)),
    }


def of_every_size(session, seen):
    fed = v1.placeholder(tf.float32, [None])
    words = v1.placeholder(tf.string, [None])
    both = [fed + 1.0, words]
    for size in (1, 1000, 1 << 18, 5_000_000):
        value = np.arange(size, dtype=np.float32)
        text = [b"%d" % number * 20 for number in range(min(size, 20_000))]
        seen[f"size {size}"] = digest(taken(session.run, both, {fed: value, words: text}))
        got = taken(session.run, fed, {fed: value})
        got += 1.0  # a program's own
        seen[f"written {size}"] = digest(got)
    many = [v1.placeholder(tf.int32, [n]) for n in range(500)]
    feeds = {one: np.full(n, n, np.int32) for n, one in enumerate(many)}
    seen["many"] = digest(session.run([one * 2 for one in many], feeds))
    seen["twice"] = digest(session.run([fed, fed, fed + 1.0, fed], {fed: np.ones(70_000, "f")}))


def of_every_form(session, seen):
    fed = v1.placeholder(tf.float32, [None])
    variable = v1.get_variable("kept", shape=[70_000], use_resource=True)
    reference = v1.get_variable("reference", shape=[70_000], use_resource=False)
    assigned = [v1.assign(one, fed) for one in (variable, reference)]
    with tf.device("/job:ps/task:0"):
        far = v1.get_variable("far", shape=[70_000], use_resource=True)
        assigned.append(v1.assign(far, fed))
        there = fed * 3.0
    looped = tf.while_loop(lambda n, x: n < 5, lambda n, x: (n + 1, x * 2.0), [0, fed])
    value = np.arange(70_000, dtype=np.float32)
    targets = [one.op for one in assigned]
    seen["targets"] = digest(session.run(targets, {fed: value}))
    value[:] = -1.0  # what was fed is the step's own
    seen["kept"] = digest(session.run([variable, reference, far]))
    session.run([v1.assign_add(one, tf.ones([70_000])) for one in (variable, reference)])
    seen["added"] = digest(session.run([variable, reference]))
    seen["far"] = digest(session.run([there, far], {fed: value}))
    seen["loop"] = digest(session.run(looped, {fed: np.ones(70_000, "f")}))
    seen["resource"] = failure(session.run, variable.handle)[0]
    called = session.make_callable(fed * 4.0, feed_list=[fed])
    seen["callable"] = digest(called(np.ones(30_000, "f")))
    options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    metadata = v1.RunMetadata()
    session.run(there, {fed: value}, options=options, run_metadata=metadata)
    seen["metadata"] = [len(metadata.partition_graphs), len(metadata.step_stats.dev_stats) > 1]
    seen["devices"] = [device.name for device in session.list_devices()]


def of_every_error(session, seen):
    fed = v1.placeholder(tf.float32, [None])
    queue = v1.FIFOQueue(1, [tf.float32])
    endless = queue.dequeue() + tf.reduce_sum(fed)
    wrong = v1.assert_equal(fed, 2.0, message="it is not 2")
    long_text = v1.Assert(tf.reduce_all(fed > 2.0), [tf.fill([200], "long" * 100)], summarize=200)
    value = {fed: np.ones(70_000, "f")}
    seen["wrong"] = failure(session.run, wrong, value)
    seen["long"] = failure(session.run, long_text, value)
    seen["unfed"] = failure(session.run, fed + 1.0)
    seen["mismatch"] = failure(session.run, fed[:3] + tf.ones([2]), value)
    for time in (1, 500):
        options = v1.RunOptions(timeout_in_ms=time)
        seen[f"timeout {time}"] = failure(session.run, endless, value, options=options)[0]
    config = v1.ConfigProto(operation_timeout_in_ms=500)
    with v1.Session(TARGET, config=config) as other:
        seen["operation timeout"] = failure(other.run, endless, value)[0]
    other = v1.Session(TARGET)
    other.run(fed, value)
    ended = []
    waiting = threading.Thread(target=lambda: ended.append(failure(other.run, endless, value)))
    waiting.start()
    waiting.join(1)
    other.close()
    waiting.join()
    seen["closed"] = [ended, failure(other.run, fed, value)]


def from_many_threads(session):
    fed = v1.placeholder(tf.float32, [None])
    doubled = fed * 2.0
    wrong = []

    def run(number):
        for size in (1, 100, 5_000, 100_000) * 4:
            value = np.full(size, number, np.float32)
            got = taken(session.run, doubled, {fed: value})
            if not np.array_equal(got, value * 2.0):
                wrong.append([number, size])

    session.run(doubled, {fed: [1.0]})
    threads = [threading.Thread(target=run, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def main():
    v1.disable_eager_execution()
    seen = {}
    with v1.Session(TARGET) as session:
        one = tf.constant(1.0)
        for _ in range(STEPS):
            taken(session.run, one)
        seen["dtypes"] = of_every_dtype(session)
        of_every_size(session, seen)
        of_every_form(session, seen)
        of_every_error(session, seen)
        seen["threads"] = from_many_threads(session)
        seen["after"] = digest(session.run(one))
    v1.Session.reset(TARGET)
    plugin = sys.modules.get("farwrite.tensorflow")
    answer({"seen": seen, "stats": dict(plugin.stats()) if plugin else {}})


if __name__ == "__main__":
    main()
