"""An eager client whose cluster changes: changing.py ... SCENARIO.

The client is task 0 of job worker; ADDRESSES["worker"] are servers in processes of their own.
"""

import time

from client import ADDRESSES, ARGUMENTS, PROTOCOL, answer, tf
from tensorflow.core.protobuf import cluster_pb2, tensorflow_server_pb2
from tensorflow.python.eager import context, executor

from farwrite_bench.cluster.process import free_ports

SIZE = 300_000
SERVERS = ADDRESSES["worker"]


def server_def(own, tasks):
    """Name the client's address and the servers that are tasks: {1: SERVERS[0]}."""
    cluster = cluster_pb2.ClusterDef()
    job = cluster.job.add()
    job.name = "worker"
    job.tasks[0] = own
    for index, address in tasks.items():
        job.tasks[index] = address
    return tensorflow_server_pb2.ServerDef(
        cluster=cluster, job_name="worker", task_index=0, protocol=PROTOCOL
    )


def on(task):
    return tf.device(f"/job:worker/replica:0/task:{task}/device:CPU:0")


@tf.function
def product(left, right):
    return left * right


def call(*tasks):
    """Multiply on each task what the client and the other tasks hold, and bring it here."""
    sums = []
    for size in (2, SIZE):
        held = [tf.range(1, size + 1, dtype=tf.float64)]
        for task in tasks:
            with on(task):
                held.append(tf.cast(tf.fill([size], task), tf.float64))
        for task in tasks:
            with on(task):
                products = [product(held[0], value) for value in held]
                products.append(held[-1] + product(held[0], held[0]))
            sums += [float(value.numpy().sum()) for value in products]
    return sums


def own_address():
    return f"127.0.0.1:{free_ports(1)[0]}"


def back_again():
    """Take a task out of the cluster and add it again, twice."""
    own = own_address()
    both = {1: SERVERS[0], 2: SERVERS[1]}
    context.set_server_def(server_def(own, both))
    values = [call(1, 2)]
    for _ in range(2):
        context.update_server_def(server_def(own, {1: SERVERS[0]}))
        values.append(call(1))
        context.update_server_def(server_def(own, both))
        values.append(call(1, 2))
    return values


def replaced():
    """Put another server in the place of a task, and the first one back; hide the own address."""
    context.set_server_def(server_def(own_address(), {1: SERVERS[0], 2: SERVERS[1]}))
    values = [call(1, 2)]
    for server in (SERVERS[2], SERVERS[1]):
        context.update_server_def(server_def("localhost:0", {1: SERVERS[0], 2: server}))
        values.append(call(1, 2))
    return values


def added():
    """Add a task to the cluster; hide the own address."""
    context.set_server_def(server_def(own_address(), {1: SERVERS[0]}))
    values = [call(1)]
    context.update_server_def(server_def("localhost:0", {1: SERVERS[0], 2: SERVERS[1]}))
    return [*values, call(1, 2)]


def pending():
    """Add a task while the client waits for a tensor of task 2; hide the own address."""
    own = "localhost:0"
    context.set_server_def(server_def(own, {1: SERVERS[0], 2: SERVERS[1]}))

    @tf.function
    def spread():
        with on(2):
            held = tf.fill([SIZE], tf.minimum(tf.timestamp(), 2.0))  # no constant
        with on(0):
            return held * held

    steps = executor.new_executor(enable_async=True)
    with context.executor_scope(steps):
        result = spread()
    time.sleep(1)  # it would take 4 s at least
    context.update_server_def(server_def(own, {1: SERVERS[0], 2: SERVERS[1], 3: SERVERS[2]}))
    steps.wait()
    return [float(result.numpy().sum()), call(1, 3)]


def one_process():
    """Put one of SERVERS in the place of a server in this process; hide the own address."""
    servers = [
        tf.distribute.Server({"worker": [f"127.0.0.1:{port}"]}, "worker", 0, PROTOCOL)
        for port in free_ports(2)
    ]
    addresses = [server.target.split("://")[1] for server in servers]
    values = []
    for second in (addresses[1], SERVERS[0]):
        change = context.update_server_def if values else context.set_server_def
        change(server_def("localhost:0", {1: addresses[0], 2: second}))
        with on(1):
            held = tf.fill([SIZE], tf.constant(3.0, tf.float64))
        with on(2):
            product_of_both = product(held, held)
        values.append([float(x.numpy().sum()) for x in (held, product_of_both)])
    return values


SCENARIOS = {
    "back_again": back_again,
    "replaced": replaced,
    "added": added,
    "pending": pending,
    "one_process": one_process,
}


def main():
    values = SCENARIOS[ARGUMENTS[0]]()
    plugin = {}
    if PROTOCOL != "grpc":
        import farwrite.tensorflow

        plugin = dict(farwrite.tensorflow.stats())
    answer({"values": values, "plugin": plugin})


if __name__ == "__main__":
    main()
