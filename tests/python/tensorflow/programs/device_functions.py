"""TensorFlow 2 over the devices of a ps and a worker; prints a digest a case, and the counters."""

from client import ADDRESSES, PROTOCOL, answer, digest, tf

CASES = {}
PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"
A, B, OTHER_B = f"{PS}/device:FARTEST:0", f"{WORKER}/device:FARTEST:0", f"{WORKER}/device:FARTEST:1"
HOST_A, HOST_B = f"{PS}/device:CPU:0", f"{WORKER}/device:CPU:0"
LOCAL = "/job:chief/replica:0/task:0/device:CPU:0"


def case(function):
    CASES[function.__name__] = function
    return function


@case
def function_over_two_devices():
    @tf.function
    def step(value):
        with tf.device(A):
            grown = value * 2.0
        with tf.device(B):
            squared = grown * grown
        with tf.device(OTHER_B):
            more = squared + grown
        with tf.device(HOST_A):
            return tf.reduce_sum(more), more

    return [step(tf.cast(tf.range(count), tf.float32)) for count in (1, 3000, 100_000, 3000, 1)]


@case
def function_with_branches_and_loops():
    @tf.function
    def step(flag, value):
        with tf.device(A):
            grown = value + value
        for _ in tf.range(5):
            with tf.device(B):
                grown = grown * 1.25
            if flag:
                with tf.device(A):
                    grown = grown - value
        return grown

    value = tf.cast(tf.range(20_000), tf.float32)
    return [step(tf.constant(flag), value) for flag in (True, False, True)]


@case
def eager_copies():
    with tf.device(HOST_A):
        drawn = tf.random.stateless_uniform([70_000], [5, 6])
    with tf.device(A):
        made = drawn * drawn
    with tf.device(B):
        doubled = tf.identity(made) * 2.0
    with tf.device(HOST_B):
        seen = tf.sqrt(made)
    with tf.device(A):
        back = doubled - made
    with tf.device(LOCAL):
        return [tf.identity(one) for one in (made, doubled, seen, back)]


def parameter_server_strategy(strategy):
    """Variables on the host of the ps, computed with on the worker's device."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        dense = tf.Variable(tf.random.stateless_normal([512, 16], [1, 2]))

    @tf.function
    def step(seed):
        inputs = tf.random.stateless_normal([32, 512], [6, seed])
        weights = dense.read_value()
        with tf.device(B):
            outputs = tf.matmul(inputs, weights)
            gradient = tf.matmul(inputs, outputs, transpose_a=True) * 1e-4
        dense.assign_sub(gradient)
        with tf.device(HOST_B):
            return tf.reduce_mean(tf.square(outputs))

    losses = []
    for _ in range(6):
        remote = coordinator.schedule(step, args=(tf.constant(3),))
        coordinator.join()
        losses.append(remote.fetch())
    assert losses[-1] < losses[0]
    return [*losses, dense.read_value()]


def main():
    # It would put in operations that the device does not have.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(ADDRESSES), rpc_layer=PROTOCOL
    )
    strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)
    digests = {"parameter_server_strategy": digest(parameter_server_strategy(strategy))}
    for name, run in CASES.items():
        digests[name] = digest(run())
    plugin = {}
    if PROTOCOL != "grpc":
        import farwrite.tensorflow

        plugin = dict(farwrite.tensorflow.stats())
    answer({**plugin, "digests": digests})


if __name__ == "__main__":
    main()
