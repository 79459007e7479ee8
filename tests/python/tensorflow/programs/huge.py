"""One tensor of 1.9 GB to the worker and back: huge.py ... DTYPE. Stock hangs from 2 GB on."""

from client import ARGUMENTS, answer, target, tf

v1 = tf.compat.v1
WORDS, ROWS = 475_000_000, 1000


def fingerprint(tensor):
    """Eight bytes of every row, which follow from all of its bytes."""
    return tf.raw_ops.Fingerprint(data=tf.reshape(tensor, [ROWS, -1]), method="farmhash64")


def main():
    v1.disable_eager_execution()
    dtype = tf.as_dtype(ARGUMENTS[0])
    with tf.device("/job:ps/task:0"):
        words = tf.raw_ops.StatelessRandomUniformFullInt(
            shape=[WORDS], seed=[1, 2], dtype=tf.uint32
        )
        sent = tf.bitcast(words, dtype)
    with tf.device("/job:worker/task:0"):
        passed_on = tf.identity(sent)
        there = fingerprint(passed_on)
    with tf.device("/job:ps/task:0"):
        back = fingerprint(passed_on)
    with v1.Session(target("worker")) as session:
        values = [one.tobytes() for one in session.run([there, back])]
    answer({"same": values[0] == values[1], "fingerprint": values[0].hex()})


if __name__ == "__main__":
    main()
