"""A loop whose worker runs far ahead of its ps: far_ahead.py ... COUNT.

The ps begins to consume when the worker has made all of its COUNT tensors of 8,000 bytes.
"""

import threading

from client import ADDRESSES, ARGUMENTS, answer, target, tf

v1 = tf.compat.v1
COUNT = int(ARGUMENTS[0])
SIZE = 2_000


def main():
    v1.disable_eager_execution()
    with tf.device("/job:ps/task:0"):
        queue = v1.FIFOQueue(1, [tf.float64], [[]], shared_name="gate")
        first = queue.dequeue()
        go = queue.enqueue(tf.constant(0.0, tf.float64))
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
        limit = tf.constant(COUNT)
    _, total = v1.while_loop(
        lambda number, _: number < limit, body, (zero, first), parallel_iterations=32
    )
    values = []
    graph = v1.get_default_graph()
    with v1.Session(target("worker"), graph=graph) as session:
        session.run(v1.global_variables_initializer())
        looping = threading.Thread(target=lambda: values.append(float(session.run(total))))
        looping.start()
        last = -1
        while last < COUNT:
            last = int(session.run(made))
        session.run(go)
        looping.join()
    answer({"value": values[0], "expected": float(COUNT) * (COUNT - 1), "tasks": len(ADDRESSES)})


if __name__ == "__main__":
    main()
