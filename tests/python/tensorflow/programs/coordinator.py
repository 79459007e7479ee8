"""A client that joins the cluster as job localhost: variables on ps:0 and ps:1, sums on worker:0.

The others cannot call it by the address it gives itself if they are on other hosts.
"""

from client import ADDRESSES, PROTOCOL, answer, tf

SIZE = 300_000


def main():
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(ADDRESSES), protocol=PROTOCOL)
    variables = []
    for task in range(2):
        with tf.device(f"/job:ps/task:{task}"):
            variables.append(tf.Variable(tf.fill([SIZE], float(task + 1))))

    @tf.function
    def step():
        with tf.device("/job:worker/task:0"):
            return variables[0] + 2.0 * variables[1]

    values = []
    for count in range(3):
        whole = step()
        with tf.device("/job:localhost/task:0/device:CPU:0"):
            here = tf.identity(whole) + float(count)
        with tf.device("/job:ps/task:0"):
            there = here * 2.0  # from the client
        values.append(sorted(set(there.numpy().tolist())))
    plugin = {}
    if PROTOCOL != "grpc":
        import farwrite.tensorflow

        plugin = dict(farwrite.tensorflow.stats())
    answer({"values": values, "plugin": plugin})


if __name__ == "__main__":
    main()
