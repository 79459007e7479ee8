"""TensorFlow 2 against two tasks: functions, eager copies, ParameterServerStrategy."""

import numpy as np
from client import ADDRESSES, PROTOCOL, answer, digest, tf

CASES = {}
LOCAL = "/job:chief/replica:0/task:0/device:CPU:0"
A, B = "/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"


def case(function):
    CASES[function.__name__] = function
    return function


@case
def function_over_two_tasks():
    @tf.function
    def step(value):
        with tf.device(A):
            grown = value * 2.0 + 1.0
        with tf.device(B):
            squared = tf.sqrt(grown)
        with tf.device(A):
            return tf.reduce_sum(squared), squared

    return [step(tf.cast(tf.range(count), tf.float32)) for count in (1, 3000, 100_000, 3000, 1)]


@case
def function_with_branches_and_loops():
    @tf.function
    def step(flag, value):
        with tf.device(A):
            grown = value + 1.0
        for _ in tf.range(7):
            with tf.device(B):
                grown = grown * 1.25
            if flag:
                with tf.device(A):
                    grown = grown - 0.5
        return grown

    value = tf.cast(tf.range(20_000), tf.float32)
    return [step(tf.constant(flag), value) for flag in (True, False, True)]


@case
def several_functions_at_once():
    import threading

    @tf.function
    def step(seed):
        with tf.device(A):
            drawn = tf.random.stateless_uniform([50_000], [1, seed])
        with tf.device(B):
            return tf.reduce_max(tf.sqrt(drawn))

    results = {}

    def work(first):
        for seed in range(first, 24, 4):
            results[seed] = float(step(tf.constant(seed)))

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[seed] for seed in sorted(results)]


@case
def eager_copies():
    with tf.device(A):
        made = tf.random.stateless_uniform([70_000], [5, 6])
        text = tf.strings.as_string(tf.range(5000))
    with tf.device(B):
        results = [tf.identity(made) * 2, tf.strings.length(text)]
        local = tf.constant(np.arange(30_000, dtype=np.float32))
        results.append(local + 1)
    results.append(made + 1)
    return results


@case
def in_place_kernels_on_what_came_from_a_task():
    """No graph pass sees an eager operation, or what a function's caller does with its result."""
    with tf.device(A):
        made = tf.ones([64, 512])

    @tf.function
    def fetch():
        with tf.device(A):
            drawn = tf.random.stateless_uniform([64, 512], [7, 8])
        with tf.device(LOCAL):
            return tf.identity(drawn)

    with tf.device(LOCAL):
        copied = tf.identity(made)
        results = [
            tf.raw_ops.InplaceAdd(x=copied, i=[0, -1], v=tf.ones([2, 512])),
            tf.raw_ops.InplaceUpdate(x=fetch(), i=[3], v=tf.zeros([1, 512])),
            tf.raw_ops.InplaceSub(x=fetch(), i=[5], v=tf.ones([1, 512])),
        ]
    return [*results, made + 0]


@case
def variables_on_a_task():
    with tf.device(A):
        weights = tf.Variable(tf.zeros([40_000]))

    @tf.function
    def step(rate):
        with tf.device(B):
            gradient = tf.sin(weights) + 1.0
        weights.assign_sub(rate * gradient)

    for _ in range(10):
        step(tf.constant(0.1))
    return weights.read_value()


@case
def gradients_through_two_tasks():
    with tf.device(A):
        first = tf.Variable(tf.random.stateless_normal([64, 256], [1, 1]))
    with tf.device(B):
        second = tf.Variable(tf.random.stateless_normal([256, 8], [2, 2]))

    @tf.function
    def step(inputs):
        with tf.GradientTape() as tape:
            with tf.device(A):
                hidden = tf.nn.relu(inputs @ first)
            with tf.device(B):
                loss = tf.reduce_mean(tf.square(hidden @ second))
        for variable, gradient in zip(
            (first, second), tape.gradient(loss, (first, second)), strict=True
        ):
            variable.assign_sub(0.01 * gradient)
        return loss

    inputs = tf.random.stateless_normal([32, 64], [3, 3])
    return [step(inputs) for _ in range(5)] + [first.read_value(), second.read_value()]


@case
def loop_gradients_stack_what_was_received():
    """The lists that the gradient's loop takes its tensors from may lie on another task."""
    with tf.device(A):
        weights = tf.Variable(tf.random.stateless_normal([96, 96], [4, 5]) * 0.1)

    @tf.function
    def step(state):
        with tf.GradientTape() as tape:
            for _ in tf.range(6):
                with tf.device(B):
                    hidden = tf.tanh(state @ weights)
                with tf.device(A):
                    state = hidden * state + state if tf.reduce_sum(hidden) > 0.0 else hidden
            loss = tf.reduce_mean(tf.square(state))
        gradient = tape.gradient(loss, weights)
        weights.assign_sub(0.1 * gradient)
        return loss, gradient

    start = tf.random.stateless_normal([96, 96], [6, 7])
    return [step(start) for _ in range(3)] + [weights.read_value()]


def model_fit(strategy):
    """Keras 3 has no ParameterServerStrategy; tf_keras is its predecessor, which has."""
    import tf_keras as keras

    def batches(_):
        inputs = tf.random.stateless_normal([320, 32], [1, 1])
        labels = tf.cast(tf.reduce_sum(inputs, 1) > 0.0, tf.float32)
        return tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(32).repeat()

    with strategy.scope():
        layers = [
            keras.layers.Dense(
                units, activation, kernel_initializer=keras.initializers.GlorotUniform(seed)
            )
            for units, activation, seed in ((128, "relu", 1), (64, "tanh", 2), (1, "sigmoid", 3))
        ]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    history = model.fit(
        keras.utils.experimental.DatasetCreator(batches), epochs=2, steps_per_epoch=10, verbose=0
    )
    return [*history.history["loss"], *history.history["accuracy"], *model.get_weights()]


def parameter_server_strategy(strategy):
    """One worker and no parallel steps, so that the order is known."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        dense = tf.Variable(tf.random.stateless_normal([128, 64], [1, 2]))
        table = tf.Variable(tf.random.stateless_normal([1000, 16], [3, 4]))

    @tf.function
    def step(seed):
        ids = tf.random.stateless_uniform([50], [5, seed], 0, 1000, tf.int32)
        inputs = tf.random.stateless_normal([50, 128], [6, seed])
        with tf.GradientTape() as tape:
            rows = tf.nn.embedding_lookup(table, ids)
            loss = tf.reduce_mean(tf.square(inputs @ dense)) + tf.reduce_mean(tf.square(rows))
        gradients = tape.gradient(loss, [dense, table])
        dense.assign_sub(0.05 * gradients[0])
        table.scatter_sub(tf.IndexedSlices(0.05 * gradients[1].values, gradients[1].indices))
        return loss

    losses = []
    for seed in range(8):
        remote = coordinator.schedule(step, args=(tf.constant(seed),))
        coordinator.join()
        losses.append(remote.fetch())
    return [*losses, dense.read_value(), table.read_value()]


def main():
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(ADDRESSES), rpc_layer=PROTOCOL
    )
    strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)
    digests = {
        "parameter_server_strategy": digest(parameter_server_strategy(strategy)),
        "model_fit": digest(model_fit(strategy)),
    }
    for name, run in CASES.items():
        digests[name] = digest(run())
    plugin = {}
    if PROTOCOL != "grpc":
        import farwrite.tensorflow

        plugin = dict(farwrite.tensorflow.stats())
    answer({**plugin, "digests": digests})


if __name__ == "__main__":
    main()
