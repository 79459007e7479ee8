"""Everything that goes from and to the memory of devices, once; prints a digest a case.

A and B are devices of two tasks, OTHER_A and OTHER_B each task's second one.
"""

import numpy as np
from client import ARGUMENTS, answer, digest, target, tf
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

v1 = tf.compat.v1
HOST_A, HOST_B = "/job:ps/task:0/device:CPU:0", "/job:worker/task:0/device:CPU:0"
A, OTHER_A = (f"/job:ps/task:0/device:FARTEST:{number}" for number in (0, 1))
B, OTHER_B = (f"/job:worker/task:0/device:FARTEST:{number}" for number in (0, 1))
SIZES = (0, 1, 2047, 2048, 2049, 100_000, 1_000_000)
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def session():
    """Without rewriting, what could be computed beforehand is sent all the same."""
    options = config_pb2.GraphOptions(
        rewrite_options=rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=True)
    )
    return v1.Session(target("worker"), config=v1.ConfigProto(graph_options=options))


def drawn(shape, seed=1, device=A):
    """Numbers that the host of the device has made, and the device now has."""
    with tf.device(HOST_A if device in (A, OTHER_A) else HOST_B):
        numbers = tf.random.stateless_uniform(shape, [seed, 7])
    with tf.device(device):
        return numbers * 3.0


def run(results, feeds=({},)):
    with session() as running:
        running.run(v1.global_variables_initializer())
        return [running.run(results, feed) for feed in feeds]


@case
def device_to_device():
    sent = [drawn([size], size) for size in SIZES]
    with tf.device(B):
        return run([one * 2.0 for one in sent])


@case
def device_to_host():
    sent = [drawn([size], size) for size in SIZES]
    with tf.device(HOST_B):
        return run([tf.sqrt(one) for one in sent])


@case
def host_to_device():
    with tf.device(HOST_A):
        sent = [tf.random.stateless_uniform([size], [size, 7]) for size in SIZES]
    with tf.device(B):
        return run([one * 2.0 for one in sent])


@case
def several_devices_of_a_task():
    first, second = drawn([50_000], 1, A), drawn([50_000], 2, OTHER_A)
    results = []
    for device in (B, OTHER_B):
        with tf.device(device):
            results.append(first - second)
    with tf.device(OTHER_A):
        back = results[0] * results[1]
    with tf.device(A):
        return run([*results, back + first])


@case
def dtypes():
    names = (
        "float16 float32 float64 bfloat16 int8 int16 int64 uint8 uint16 uint32 uint64 bool"
        " complex64 complex128"
    )
    results = []
    for name in names.split():
        for shape in ([], [0, 3], [2, 1, 2, 1, 2, 1, 2, 700], [20_000]):
            with tf.device(HOST_A):
                number = tf.random.stateless_uniform(shape, [3, 4], 0, 100, tf.int32)
                made = tf.cast(number, tf.as_dtype(name))
            with tf.device(A):
                sent = tf.identity(made)
            with tf.device(B):
                kept = tf.identity(sent)
            with tf.device(HOST_B):
                # The dtypes that NumPy does not have are compared by their bytes.
                results.append(tf.bitcast(kept, tf.uint16) if name == "bfloat16" else kept)
    return run(results)


@case
def tensors_in_the_memory_of_the_host():
    """int32 is there on every device, and so is what kernels say of shapes."""
    sent = drawn([123, 45])
    with tf.device(A):
        shape = tf.shape(sent)
        more = shape + tf.constant([1, 2])
    with tf.device(B):
        results = [more + 1, tf.reshape(drawn([123 * 45], 3, B), shape)]
    with tf.device(HOST_B):
        results.append(tf.reduce_prod(shape))
    return run(results)


@case
def unknown_and_changing_shapes():
    with tf.device(HOST_A):
        fed = v1.placeholder(tf.float32, [None, 4])
    with tf.device(A):
        there = fed + fed
    with tf.device(B):
        back = there * there
    with tf.device(OTHER_A):
        result = back - fed
    feeds = [{fed: np.full([rows, 4], rows + 0.5)} for rows in (3, 5000, 0, 20_000, 5000, 1)]
    return run([back, result], feeds)


@case
def one_tensor_to_many():
    sent = drawn([40_000])
    results = []
    for device in (B, OTHER_B, HOST_B, OTHER_A, HOST_A):
        with tf.device(device):
            results += [sent + 1.0, sent * sent]
    return run(results)


@case
def variants():
    """Lists of tensors: from a device to the host, and from the host to a device."""

    def lists(make):
        """One that is sent in the message, and one that is lent."""
        for sizes in ((1,), (2048, 100_000)):
            made = tf.raw_ops.EmptyTensorList(
                element_shape=-1, max_num_elements=2, element_dtype=tf.float32
            )
            for size in sizes:
                made = tf.raw_ops.TensorListPushBack(input_handle=made, tensor=make(size))
            yield made

    with tf.device(A):
        of_device = list(lists(lambda size: drawn([size])))
    with tf.device(HOST_A):
        of_host = list(lists(lambda size: tf.ones([size])))
    with tf.device(HOST_B):
        last = [
            tf.raw_ops.TensorListPopBack(
                input_handle=one, element_shape=-1, element_dtype=tf.float32
            ).tensor
            for one in of_device
        ]
    with tf.device(B):
        return run([last, [tf.raw_ops.TensorListLength(input_handle=one) for one in of_host]])


@case
def slices():
    """A part of a tensor begins anywhere in the device's memory."""
    sent = drawn([101, 1003])
    with tf.device(A):
        rows = [tf.raw_ops.Slice(input=sent, begin=[i, 0], size=[100, 1003]) for i in (0, 1)]
    with tf.device(B):
        return run([row * 2.0 for row in rows])


@case
def memory_that_computations_still_use():
    """A device gives memory again when its last kernel was called, before that has computed."""
    own = drawn([3000], 2, B)
    for _ in range(30):
        with tf.device(B):
            own = own * 0.5 + own
    sent = [drawn([3000], seed) for seed in range(8)]
    with tf.device(B):
        return run([own, *(one * 2.0 for one in sent)], [{}] * 3)


@case
def dead_branches():
    results = []
    for flag in (True, False):
        data = drawn([5000])
        with tf.device(HOST_A):
            predicate = tf.constant(flag)
        with tf.device(A):
            off, on = v1.raw_ops.Switch(data=data, pred=predicate)
        with tf.device(B):
            left, right = on + data, off - data
        with tf.device(OTHER_A):
            merged, _ = v1.raw_ops.Merge(inputs=[left, right])
        with tf.device(HOST_B):
            results.append(tf.identity(merged))
    return run(results)


@case
def while_loop():
    v1.disable_control_flow_v2()
    half = drawn([], 5, B)

    def body(step, state):
        with tf.device(A):
            grown = state * 1.5 + state
        with tf.device(B):
            return step + 1, grown - half

    start = drawn([5000], 9, B)
    with tf.device(HOST_B):
        count = tf.constant(0)
    _, result = v1.while_loop(lambda step, _: step < 15, body, [count, start])
    return run(result)


@case
def chain_of_small_tensors():
    state = drawn([64])
    for hop in range(20):
        with tf.device((B, OTHER_A, OTHER_B, A)[hop % 4]):
            state = state + 1.0
    with tf.device(HOST_B):
        result = tf.identity(state)
    return run(result, [{}] * 5)


@case
def variables():
    """What was read stays as it was read, whatever becomes of the variable."""
    with tf.device(A):
        weights = v1.get_variable(
            "w", initializer=np.linspace(0, 1, 50_000, dtype=np.float32), use_resource=True
        )
        read = weights.read_value()
    with tf.device(B):
        change = read * 0.5 + 1.0
    with tf.device(A):
        update = weights.assign(read - change).op
    with session() as running:
        running.run(v1.global_variables_initializer())
        seen = [running.run([change, update])[0] for _ in range(10)]
        return [*seen, running.run(weights.read_value())]


@case
def network_split_over_two_devices():
    layers, value = [], drawn([64, 96])
    for number, (device, width) in enumerate([(A, 80), (B, 64), (OTHER_A, 48), (OTHER_B, 10)]):
        layer = drawn([value.shape[1], width], number, device)
        layers.append(layer)
        with tf.device(device):
            value = tf.matmul(value, layer)
    gradient = value
    for layer, device in zip(reversed(layers), (OTHER_B, OTHER_A, B, A), strict=True):
        with tf.device(device):
            gradient = tf.matmul(gradient, layer, transpose_b=True)
    return run([value, gradient])


@case
def partial_run():
    with tf.device(HOST_A):
        a, b = (v1.placeholder(tf.float32, [30_000]) for _ in range(2))
    with tf.device(A):
        there = a + a
    with tf.device(B):
        first = there * 2.0
    with tf.device(A):
        second = first * b
    fed = np.arange(30_000, dtype=np.float32)
    with session() as running:
        handle = running.partial_run_setup([first, second], [a, b])
        results = [running.partial_run(handle, first, {a: fed})]
        return [*results, running.partial_run(handle, second, {b: fed + 5})]


def main():
    v1.disable_eager_execution()
    digests = {}
    for name in ARGUMENTS or CASES:
        with tf.Graph().as_default():
            digests[name] = digest(CASES[name]())
    answer(digests)


if __name__ == "__main__":
    main()
