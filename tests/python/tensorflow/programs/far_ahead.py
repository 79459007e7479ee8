"""Loops whose worker runs far ahead of its ps: far_ahead.py ... COUNT...

For each COUNT there is a step with a loop, in which the worker makes COUNT tensors of 8,000 bytes.
When it has made them the client says "made COUNT" and waits for a line. The ps begins to consume
after the last of these lines.
"""

import sys
import threading

from client import ADDRESSES, ARGUMENTS, answer, target, tf

v1 = tf.compat.v1
COUNTS = [int(count) for count in ARGUMENTS]
SIZE = 2_000


def main():
    v1.disable_eager_execution()
    with tf.device("/job:ps/task:0"):
        queue = v1.FIFOQueue(-1, [tf.float64], [[]], shared_name="gate")
        first = queue.dequeue()
        go = queue.enqueue_many(tf.zeros([len(COUNTS)], tf.float64))
    with tf.device("/job:worker/task:0"):
        made = v1.get_variable("made", initializer=0, use_resource=True)

    def body(number, total):
        with tf.device("/job:worker/task:0"), tf.control_dependencies([made.assign_add(1)]):
            tensor = tf.fill([SIZE], tf.cast(number, tf.float32))
        with tf.device("/job:ps/task:0"):
            total += tf.cast(tensor[0], tf.float64) + tf.cast(tensor[-1], tf.float64)
        with tf.device("/job:worker/task:0"):
            number += 1
        return number, total

    with tf.device("/job:worker/task:0"):
        zero = tf.constant(0)
        limit = v1.placeholder(tf.int32, [])
    _, total = v1.while_loop(
        lambda number, _: number < limit, body, (zero, first), parallel_iterations=32
    )
    values = []
    graph = v1.get_default_graph()
    with v1.Session(target("worker"), graph=graph) as session:

        def loop(count):
            values.append(float(session.run(total, {limit: count})))

        session.run(v1.global_variables_initializer())
        steps = []
        for number, count in enumerate(COUNTS, 1):
            steps.append(threading.Thread(target=loop, args=(count,)))
            steps[-1].start()
            while int(session.run(made)) < sum(COUNTS[:number]):
                pass
            print(f"made {count}", flush=True)
            sys.stdin.readline()
        session.run(go)
        for step in steps:
            step.join()
    expected = [float(count) * (count - 1) for count in COUNTS]
    answer({"values": sorted(values), "expected": sorted(expected), "tasks": len(ADDRESSES)})


if __name__ == "__main__":
    main()
