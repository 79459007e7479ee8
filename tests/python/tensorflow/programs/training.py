"""Training on two parameter servers and two workers: training.py ... SAVE [RESTORE]...

Saves checkpoints under the folder SAVE, and goes on from those of each folder RESTORE. Digests must
agree with any other run's, and what a run restores must be what it saved itself.
"""

import pathlib
import threading

from client import ADDRESSES, ARGUMENTS, PROTOCOL, answer, digest, target, tf

v1 = tf.compat.v1
PS = [f"/job:ps/task:{task}" for task in range(2)]
WORKERS = [f"/job:worker/task:{task}" for task in range(2)]


def queue_between_workers():
    """Worker 0 fills a queue of ps 0 with tensors and strings, worker 1 empties it."""
    count, size = 12, 20_000
    with tf.Graph().as_default():
        with tf.device(PS[0]):
            queue = v1.FIFOQueue(3, [tf.float32, tf.string], [[size], []], shared_name="shared")
        number = v1.placeholder(tf.float32, [])
        with tf.device(WORKERS[0]):
            made = tf.sqrt(tf.range(size, dtype=tf.float32) + number)
            put = queue.enqueue([made, tf.strings.as_string(number) + "." * 9000])
        with tf.device(WORKERS[1]):
            values, texts = queue.dequeue_many(2)
            taken = [tf.reduce_sum(values, 1), tf.strings.length(texts), values]
        graph = v1.get_default_graph()

    def fill():
        with v1.Session(target("worker", 0), graph=graph) as session:
            for one in range(count):
                session.run(put, {number: float(one)})

    filler = threading.Thread(target=fill)
    filler.start()
    with v1.Session(target("worker", 1), graph=graph) as session:
        results = [session.run(taken) for _ in range(count // 2)]
    filler.join()
    return results


def v1_training(folder, restored):
    """Variables on both servers, and a sharded Saver, which writes on each server what is there."""
    with tf.Graph().as_default():
        variables = []
        for task, resource in ((0, True), (1, True), (0, False), (1, False)):
            with tf.device(PS[task]):
                start = tf.random.stateless_normal([200, 100], [task, resource])
                variables.append(
                    v1.get_variable(f"v{task}{resource}", initializer=start, use_resource=resource)
                )
        names = v1.get_variable("names", initializer=["", "a" * 10_000], use_resource=False)
        with tf.device(WORKERS[1]):
            loss = tf.add_n([tf.reduce_mean(tf.square(one)) for one in variables])
        train = v1.train.AdamOptimizer(0.01).minimize(loss)
        saver = v1.train.Saver(sharded=True)
        with v1.Session(target("worker", 0)) as session:
            if restored:
                saver.restore(session, f"{restored}/v1")
            else:
                session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            if not restored:
                saver.save(session, f"{folder}/v1", write_meta_graph=False)
                for _ in range(3):
                    session.run(train)
            return session.run([loss, names, *variables])


class Training:
    """Partitioned variables: a sharded table with sparse gradients, and a sharded matrix."""

    def __init__(self):
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(ADDRESSES), rpc_layer=PROTOCOL
        )
        strategy = tf.distribute.ParameterServerStrategy(
            resolver, tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
        )
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            self.table = tf.Variable(tf.random.stateless_normal([3000, 16], [3, 4]))
            self.dense = tf.Variable(tf.random.stateless_normal([256, 64], [1, 2]))
            self.sums = tf.Variable(tf.zeros([20_000, 2]))
        self.variables = [self.table, self.dense, self.sums]
        self.checkpoint = tf.train.Checkpoint(
            table=self.table, dense=self.dense, sums=self.sums, step=tf.Variable(0)
        )

        @tf.function
        def step(seed):
            ids = tf.random.stateless_uniform([500], [5, seed], 0, 3000, tf.int32)
            inputs = tf.random.stateless_normal([50, 256], [6, seed])
            shards = [*self.table.variables, *self.dense.variables]
            with tf.GradientTape() as tape:
                rows = tf.nn.embedding_lookup(self.table, ids)
                whole = tf.convert_to_tensor(self.dense)
                loss = tf.reduce_mean(tf.square(inputs @ whole)) + tf.reduce_mean(tf.square(rows))
            for shard, gradient in zip(shards, tape.gradient(loss, shards), strict=True):
                if isinstance(gradient, tf.IndexedSlices):
                    shard.scatter_sub(tf.IndexedSlices(0.5 * gradient.values, gradient.indices))
                else:
                    shard.assign_sub(0.5 * gradient)
            return loss

        @tf.function
        def count(number):
            for shard in self.sums.variables:
                shard.assign_add(tf.fill(shard.shape, number))

        self.step, self.count = step, count

    def train(self, steps):
        """One step at a time, so that their order is known; either worker may make it."""
        losses = []
        for seed in range(steps):
            remote = self.coordinator.schedule(self.step, args=(tf.constant(seed),))
            self.coordinator.join()
            losses.append(remote.fetch())
        # Whole numbers: their sum does not depend on the order.
        for number in range(1, 41):
            self.coordinator.schedule(self.count, args=(tf.constant(float(number)),))
        self.coordinator.join()
        return losses

    def state(self):
        return [shard.numpy() for variable in self.variables for shard in variable.variables]


def main():
    folder, *others = ARGUMENTS
    pathlib.Path(folder).mkdir(exist_ok=True)
    results = {"queue": digest(queue_between_workers())}
    results["v1"] = digest(v1_training(folder, None))
    training = Training()
    results["losses"] = digest(training.train(4))
    results["trained"] = digest(training.state())
    training.checkpoint.write(f"{folder}/v2")
    results["more losses"] = digest(training.train(3))
    results["more trained"] = digest(training.state())
    for other in others:
        assert digest(v1_training(folder, other)) == results["v1"], other
        training.checkpoint.read(f"{other}/v2").assert_consumed()
        assert digest(training.state()) == results["trained"], other
        assert digest(training.train(3)) == results["more losses"], other
        assert digest(training.state()) == results["more trained"], other
    plugin = {}
    if PROTOCOL != "grpc":
        import farwrite.tensorflow

        plugin = dict(farwrite.tensorflow.stats())
    answer({"digests": results, "plugin": plugin})


if __name__ == "__main__":
    main()
