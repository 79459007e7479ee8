"""A function over two tasks, whose shapes are inferred, pinned, bounded, or none of it."""

from client import ADDRESSES, PROTOCOL, answer, tf

import farwrite.tensorflow as farwrite

PS, WORKER = "/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"


def main():
    cluster = tf.train.ClusterSpec(ADDRESSES)
    tf.config.experimental_connect_to_cluster(cluster, job_name="chief", protocol=PROTOCOL)
    with tf.device(PS):
        variable = tf.Variable(tf.ones([3000, 4]))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="given")])
    def step(given):
        farwrite.bound_shape(given, [3000, 4])
        with tf.device(PS):
            free = tf.sqrt(given + 2.0, name="free")
            bounded = farwrite.bound_shape(tf.exp(given + 3.0, name="bounded"), [3000, 4])
            # The optimizer takes out the identity, and fuses three ops to one.
            through = tf.identity(tf.add(given, 4.0, name="identified"))
            through = farwrite.bound_shape(through, [3000, 4])
            fused = tf.nn.bias_add(tf.matmul(given, tf.ones([4, 4])), tf.ones([4]))
            fused = farwrite.bound_shape(tf.nn.relu(fused, name="fused"), [3000, 4])
            halves = tf.split(given, 2, axis=1, name="halves")
            pinned = farwrite.pin_shape(halves[1], [3000, 2])
            read = variable.read_value()
        with tf.device(WORKER):
            total = tf.reduce_sum(given)
            for tensor in (free, bounded, through, fused, pinned, read):
                total += tf.reduce_sum(tensor)
            while total > 0.0:
                with tf.device(PS):
                    looped = farwrite.bound_shape(tf.square(given, name="looped"), [3000, 4])
                total -= 1e9 + tf.reduce_sum(looped)
            return total

    for rows in (3000, 3000, 3001):
        step(tf.ones([rows, 4]))
    with tf.device(PS):
        eager = tf.ones([3000])
    with tf.device(WORKER):
        tf.identity(eager)
    answer({"edges": farwrite.edges(), "table": farwrite.edges_table()})


if __name__ == "__main__":
    main()
