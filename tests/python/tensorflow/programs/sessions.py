"""Sessions that end badly: deadlines, cancelled steps, failing kernels, closing while it runs."""

import threading
import time

from client import answer, target, tf

v1 = tf.compat.v1


def main():
    v1.disable_eager_execution()
    with tf.device("/job:ps/task:0"):
        queue = v1.FIFOQueue(10, [tf.float32], shapes=[[20_000]], shared_name="q")
        never = queue.dequeue()
        sent = tf.random.stateless_uniform([200_000], [1, 2])
        flag = v1.placeholder_with_default(tf.constant(1), [])
        checked = tf.debugging.check_numerics(sent / tf.cast(flag, tf.float32), "as told")
    with tf.device("/job:worker/task:0"):
        waits = tf.reduce_sum(never)
        sums = tf.reduce_sum(tf.sqrt(sent))
        fails = tf.reduce_sum(checked) + sums
    errors = []
    good = []
    for _ in range(5):
        with v1.Session(target("worker")) as session:
            good.append(float(session.run(sums)))
            try:
                session.run([waits, sums], options=v1.RunOptions(timeout_in_ms=300))
            except tf.errors.DeadlineExceededError:
                errors.append("deadline")
            try:
                session.run(fails, {flag: 0})
            except tf.errors.InvalidArgumentError:
                errors.append("kernel")
            good.append(float(session.run(sums)))

            def close(session=session):
                time.sleep(0.3)
                session.close()

            closer = threading.Thread(target=close)
            closer.start()
            try:
                session.run(waits)
            except (tf.errors.CancelledError, tf.errors.AbortedError, RuntimeError):
                errors.append("closed")
            closer.join()
    answer({"good": len(set(good)), "runs": len(good), "errors": sorted(errors)})


if __name__ == "__main__":
    main()
