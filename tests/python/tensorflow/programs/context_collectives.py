"""A client whose eager contexts on two workers reduce; then a session of theirs does the same."""

from client import ADDRESSES, PROTOCOL, answer, tf

v1 = tf.compat.v1
WORKERS = [f"/job:worker/replica:0/task:{index}/device:CPU:0" for index in range(2)]
ELEMENTS = 100_000


def reductions(group):
    """The sum of two tensors, one on each worker, as each of them has it."""
    results = []
    for rank, device in enumerate(WORKERS):
        with tf.device(device):
            results.append(
                tf.reduce_max(
                    tf.raw_ops.CollectiveReduce(
                        input=tf.fill([ELEMENTS], tf.constant(rank + 1.0)),
                        group_size=2,
                        group_key=group,
                        instance_key=group,
                        merge_op="Add",
                        final_op="Id",
                        subdiv_offsets=[0],
                        communication_hint="ring",
                    )
                )
            )
    return results


def by_session():
    """Led by the first worker's master, which must know what carries collectives there."""
    with tf.Graph().as_default():
        results = reductions(2)
        options = v1.RunOptions()
        options.experimental.collective_graph_key = 5
        with v1.Session(f"grpc://{ADDRESSES['worker'][0]}") as session:
            return [float(value) for value in session.run(results, options=options)]


def main():
    tf.config.experimental_connect_to_cluster(
        tf.train.ClusterSpec(ADDRESSES), job_name="client", protocol=PROTOCOL
    )
    by_contexts = [float(value) for value in tf.function(reductions)(1)]
    answer({"contexts": by_contexts, "session": by_session()})


if __name__ == "__main__":
    main()
