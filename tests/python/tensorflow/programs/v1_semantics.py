"""Everything a v1 session can send between two tasks, once; prints a digest a case."""

import numpy as np
from client import answer, digest, target, tf
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

v1 = tf.compat.v1
A, B = "/job:ps/task:0", "/job:worker/task:0"
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def session(rewriting=False):
    """Without rewriting, what could be computed beforehand is sent all the same."""
    options = config_pb2.GraphOptions(
        rewrite_options=rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=not rewriting)
    )
    return v1.Session(target("worker"), config=v1.ConfigProto(graph_options=options))


def ramp(count, dtype=tf.float32):
    return tf.cast(tf.range(count), dtype)


@case
def sizes():
    """From nothing to above every threshold."""
    results = []
    for count in (0, 1, 2047, 2048, 2049, 100_000, 3_000_000):
        with tf.device(A):
            sent = tf.random.stateless_uniform([count], seed=[1, count])
        with tf.device(B):
            results.append(sent * 2)
    with session() as running:
        return running.run(results)


@case
def plain_dtypes():
    names = (
        "float16 float32 float64 bfloat16 int8 int16 int32 int64"
        " uint8 uint16 uint32 uint64 bool complex64 complex128"
    )
    results = []
    for name in names.split():
        for shape in ([], [0, 3], [2, 1, 2, 1, 2, 1, 2, 700], [20_000]):
            with tf.device(A):
                number = tf.random.stateless_uniform(shape, [3, 4], 0, 100, tf.int32)
                sent = tf.cast(number, tf.as_dtype(name))
            with tf.device(B):
                results.append(tf.identity(sent))
    with session() as running:
        values = running.run(results)
    return [
        np.asarray(value).view(np.uint8 if value.size else value.dtype)
        if value.ndim and value.dtype.itemsize and "bfloat16" in str(value.dtype)
        else value
        for value in values
    ]


@case
def rare_dtypes():
    """Made of, and looked at as, a type that every kernel knows."""
    names = "qint8 quint8 qint16 quint16 qint32 float8_e4m3fn float8_e5m2 int4 uint4"
    results = []
    for name in names.split():
        dtype = tf.as_dtype(name)
        for shape in ([], [0, 3], [2, 1, 2, 1, 2, 1, 2, 700], [20_000]):
            with tf.device(A):
                number = tf.random.stateless_uniform(shape, [3, 4], 0, 8, tf.int32)
                if dtype.is_quantized:
                    plain = {1: tf.int8, 2: tf.int16, 4: tf.int32}[dtype.size]
                    sent = tf.bitcast(tf.cast(number, plain), dtype)
                else:
                    plain = tf.float32 if "float8" in name else tf.int8
                    sent = tf.cast(tf.cast(number, plain), dtype)
            with tf.device(B):
                kept = tf.identity(sent)
                results.append((tf.bitcast if dtype.is_quantized else tf.cast)(kept, plain))
    with session() as running:
        return running.run(results)


@case
def strings():
    with tf.device(A):
        small = tf.strings.as_string(tf.range(10))
        large = tf.strings.as_string(tf.range(20_000))
    with tf.device(B):
        results = [tf.strings.join([small, "x"]), tf.strings.length(large), tf.identity(large)]
    with session() as running:
        return running.run(results)


@case
def variants():
    with tf.device(A):
        sent = tf.raw_ops.TensorListFromTensor(
            tensor=tf.reshape(ramp(6000), [3, 2000]), element_shape=[2000]
        )
    with tf.device(B):
        result = tf.raw_ops.TensorListStack(
            input_handle=sent, element_shape=[2000], element_dtype=tf.float32, num_elements=3
        )
    with session() as running:
        return running.run(result)


@case
def unaligned_slices():
    """A slice on the first axis is a view into its tensor, not where kernels want it."""
    with tf.device(A):
        whole = tf.reshape(ramp(100_003), [100_003])
        parts = [whole[i:] for i in range(1, 6)]
    with tf.device(B):
        results = [tf.reduce_sum(part) + part[0] for part in parts] + [tf.sqrt(p) for p in parts]
    with session() as running:
        return running.run(results)


@case
def ref_variable_is_a_snapshot():
    """What was read stays as it was read, whatever the variable becomes."""
    with tf.device(A):
        variable = v1.get_variable(
            "ref", initializer=np.zeros(50_000, np.float32), use_resource=False
        )
    with tf.device(B):
        seen = tf.identity(variable)
        with tf.device(A), tf.control_dependencies([v1.assign_add(variable, tf.ones([50_000])).op]):
            later = tf.identity(variable)
        with tf.control_dependencies([later]):
            total = tf.reduce_sum(later)
    with session() as running:
        running.run(v1.global_variables_initializer())
        # Reading and adding race within a step; across steps the order is known.
        running.run(total)
        first = running.run(seen.op) or running.run(total)
        return [first, running.run(v1.assign_add(variable, tf.ones([50_000])))]


@case
def ref_variable_through_ops_that_pass_it_on():
    """Each may hand on the variable's own memory; what the worker keeps must not change."""
    with tf.device(A):
        variable = v1.get_variable(
            "p", initializer=np.zeros([64, 512], np.float32), use_resource=False
        )
        passed = {
            "transpose": tf.raw_ops.Transpose(x=variable, perm=[0, 1]),
            "tile": tf.tile(variable, [1, 1]),
            "split": tf.split(variable, 2, 0)[1],
            "slice": tf.slice(variable, [0, 0], [32, 512]),
            "strided": variable[0:32],
            "add_n": tf.raw_ops.AddN(inputs=[variable]),
            "sum": tf.raw_ops.Sum(input=variable, axis=tf.zeros([0], tf.int32)),
            "cast": tf.raw_ops.Cast(x=variable, DstT=tf.float32),
            "identity": tf.identity(variable),
        }
        change = v1.assign_add(variable, tf.ones([64, 512])).op
    keep, look = [], []
    with tf.device(B):
        for name, value in sorted(passed.items()):
            kept = v1.get_variable(
                f"kept_{name}",
                shape=value.shape,
                initializer=v1.zeros_initializer(),
                use_resource=True,
            )
            keep.append(kept.assign(value, read_value=False))
            look.append(tf.reduce_max(kept.read_value()))
    with session() as running:
        running.run(v1.global_variables_initializer())
        running.run(keep)
        for _ in range(3):
            running.run(change)
        return running.run(look)


@case
def resource_variable():
    with tf.device(A):
        variable = v1.get_variable(
            "res", initializer=np.zeros(50_000, np.float32), use_resource=True
        )
    with tf.device(B):
        gradient = variable.read_value() * 0.5 + 1
        update = variable.assign_add(gradient)
    with session() as running:
        running.run(v1.global_variables_initializer())
        for _ in range(20):
            running.run(update.op if hasattr(update, "op") else update)
        return running.run(variable.read_value())


@case
def kept_while_its_variable_changes():
    """What a peer keeps of a variable stays as it was sent, however often the variable changes."""
    with tf.device(A):
        variable = v1.get_variable("kept", initializer=ramp(50_000), use_resource=True)
        added = variable.assign_add(tf.ones([50_000])).op
        scattered = variable.scatter_add(tf.IndexedSlices(tf.constant([7.0]), tf.constant([3]))).op
    with tf.device(B):
        copy = v1.get_variable("copy", initializer=ramp(50_000) * 0, use_resource=True)
        keep = copy.assign(variable.read_value()).op
    with session() as running:
        running.run(v1.global_variables_initializer())
        for step in [keep, *[added, scattered] * 3]:
            running.run(step)
        return running.run([copy.read_value(), variable.read_value()])


@case
def assigned_from_a_peer():
    """A variable that takes a received tensor for its value must own it before it writes."""
    with tf.device(A):
        sent = ramp(40_000) + 1
    with tf.device(B):
        resource = v1.get_variable("r", initializer=np.zeros(40_000, np.float32), use_resource=True)
        reference = v1.get_variable(
            "f", initializer=np.zeros(40_000, np.float32), use_resource=False
        )
        assign = [resource.assign(sent).op, v1.assign(reference, sent).op]
        change = [
            resource.assign_add(tf.ones([40_000])).op,
            v1.assign_add(reference, tf.ones([40_000])).op,
            v1.scatter_add(reference, [1, 2], [5.0, 6.0]).op,
            resource.scatter_add(tf.IndexedSlices(tf.constant([7.0]), tf.constant([3]))).op,
        ]
    with session() as running:
        running.run(v1.global_variables_initializer())
        running.run(assign)
        for one in change:
            running.run(one)
        return running.run([resource.read_value(), reference])


@case
def in_place_kernels():
    """They write into their input whatever its reference count."""
    results = []
    for count in (10, 50_000):
        with tf.device(A):
            sent = tf.reshape(ramp(2 * count), [2, count])
            other = sent * 3.0
        with tf.device(B):
            update = tf.raw_ops.InplaceUpdate(x=tf.identity(sent), i=[1], v=tf.zeros([1, count]))
            add = tf.raw_ops.InplaceAdd(
                x=tf.reshape(other, [2, count]), i=[0], v=tf.ones([1, count])
            )
            results += [update, add]
    with session() as running:
        return running.run(results)


@case
def forwarding():
    """Kernels that would reuse their input's buffer must not reuse the sender's."""
    with tf.device(A):
        sent = ramp(50_000)
        kept = sent + 0
    with tf.device(B):
        chain = tf.nn.relu(tf.negative(tf.add(sent, 1.0)))
        for _ in range(4):
            chain = tf.sqrt(tf.square(chain) + 1.0)
    with session() as running:
        return running.run([chain, sent, kept])


@case
def dead_branches():
    results = []
    for flag in (True, False):
        with tf.device(A):
            predicate = tf.constant(flag)
            data = ramp(5000)
        off, on = v1.raw_ops.Switch(data=data, pred=predicate)
        with tf.device(B):
            left, right = on + 1.0, off - 1.0
        with tf.device(A):
            merged, _ = v1.raw_ops.Merge(inputs=[left, right])
        results.append(merged)
    with session() as running:
        return running.run(results)


@case
def while_loop():
    v1.disable_control_flow_v2()

    def body(step, state):
        with tf.device(A):
            grown = state * 1.5 + 1.0
        with tf.device(B):
            return step + 1, grown - 0.5

    with tf.device(B):
        start = ramp(5000)
    _, result = v1.while_loop(lambda step, state: step < 15, body, [tf.constant(0), start])
    with session() as running:
        return running.run(result)


@case
def cond_over_two_tasks():
    """The branch that is not taken sends dead tensors, forwards and for its gradient."""
    v1.disable_control_flow_v2()
    with tf.device(A):
        flag = v1.placeholder(tf.bool, [])
        data = ramp(5000) + 1.0

    def taken():
        with tf.device(B):
            deep = tf.sqrt(data) * 3.0
        with tf.device(A):
            return deep + data

    def other():
        with tf.device(B):
            inner = v1.cond(tf.reduce_sum(data) > 1e6, lambda: data * 2.0, lambda: data - 2.0)
        return inner

    merged = v1.cond(flag, taken, other)
    with tf.device(B):
        total = tf.reduce_sum(tf.square(merged))
    (gradient,) = v1.gradients(total, data)
    with session() as running:
        return [running.run([merged, gradient], {flag: on}) for on in (True, False, True)]


@case
def loop_gradients_stack_what_was_received():
    """Each round's received tensors wait on a stack until the gradient's loop takes them back."""
    v1.disable_control_flow_v2()
    with tf.device(A):
        weights = v1.get_variable(
            "w",
            initializer=np.linspace(-0.1, 0.1, 96 * 96, dtype=np.float32).reshape(96, 96),
            use_resource=True,
        )

    def body(step, state):
        with tf.device(A):
            hidden = tf.tanh(tf.matmul(state, weights))
        with tf.device(B):
            mixed = v1.cond(
                tf.equal(step % 2, 0), lambda: hidden * state + state, lambda: hidden - state
            )
            return step + 1, mixed

    with tf.device(B):
        start = tf.reshape(ramp(96 * 96), [96, 96]) * 1e-4
    _, last = v1.while_loop(
        lambda step, state: step < 9, body, [tf.constant(0), start], parallel_iterations=4
    )
    with tf.device(A):
        loss = tf.reduce_sum(tf.square(last))
    (gradient,) = v1.gradients(loss, weights.handle)
    update = weights.assign_sub(0.01 * gradient).op
    with session() as running:
        running.run(v1.global_variables_initializer())
        losses = []
        for _ in range(3):
            losses.append(running.run([loss, gradient]))
            running.run(update)
        return [*losses, running.run(weights.read_value())]


@case
def network_split_over_two_tasks():
    """Model parallelism: two layers a task, trained with momentum, gradients going back."""
    with tf.device(A):
        inputs = tf.random.stateless_normal([64, 64], [1, 2])
        labels = tf.random.stateless_uniform([64], [3, 4], 0, 10, tf.int32)
    layers, value = [], inputs
    for number, (task, width) in enumerate([(A, 256), (A, 192), (B, 128), (B, 10)]):
        with tf.device(task):
            shape = [value.shape[1], width]
            kernel = v1.get_variable(
                f"kernel{number}",
                initializer=tf.random.stateless_normal(shape, [number, 5]) * 0.1,
                use_resource=number % 2 == 0,
            )
            layers.append(kernel)
            value = tf.matmul(value, kernel)
            if number < 3:
                value = tf.nn.relu(value)
    with tf.device(B):
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=value)
        )
    train = v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss, colocate_gradients_with_ops=True)
    with session(rewriting=True) as running:
        running.run(v1.global_variables_initializer())
        losses = []
        for _ in range(6):
            losses.append(running.run(loss))
            running.run(train)
        assert losses[-1] < losses[0]
        return [*losses, *running.run(layers)]


@case
def chain_of_small_tensors():
    with tf.device(A):
        state = ramp(64)
    for hop in range(20):
        with tf.device(B if hop % 2 == 0 else A):
            state = state + 1.0
    with session() as running:
        return [running.run(state) for _ in range(5)]


@case
def control_edges():
    with tf.device(A):
        first = v1.get_variable("c", initializer=0.0, use_resource=True)
        bump = first.assign_add(1.0)
    with tf.device(B), tf.control_dependencies([bump.op if hasattr(bump, "op") else bump]):
        after = tf.constant(3.0) + 1.0
    with session() as running:
        running.run(v1.global_variables_initializer())
        return [running.run(after), running.run(first.read_value())]


@case
def feeds_and_fetches():
    with tf.device(A):
        fed = v1.placeholder(tf.float32, [None])
        doubled = fed * 2
    with tf.device(B):
        result = doubled + 1
    with session() as running:
        return [
            running.run([result, doubled], {fed: np.arange(n, dtype=np.float32)})
            for n in (0, 3, 30_000)
        ]


@case
def partial_run():
    results = []
    for count in (1, 30_000):
        with tf.device(A):
            a = v1.placeholder(tf.float32, [count])
            b = v1.placeholder(tf.float32, [count])
        with tf.device(B):
            r1 = a + 1
        with tf.device(A):
            r2 = r1 * b
        fed = np.arange(count, dtype=np.float32)
        with session() as running:
            handle = running.partial_run_setup([r1, r2], [a, b])
            results.append(running.partial_run(handle, r1, {a: fed}))
            results.append(running.partial_run(handle, r2, {b: fed + 5}))
    return results


@case
def several_sessions_at_once():
    import threading

    with tf.device(A):
        sent = ramp(30_000)
    with tf.device(B):
        result = tf.reduce_sum(tf.sqrt(sent))
    sums = []

    def work():
        with v1.Session(target("worker"), graph=graph) as running:
            sums.extend(running.run(result) for _ in range(10))

    graph = v1.get_default_graph()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [len(sums), sorted(set(map(float, sums)))]


def main():
    v1.disable_eager_execution()
    digests = {}
    for name, run in CASES.items():
        with tf.Graph().as_default():
            digests[name] = digest(run())
    answer(digests)


if __name__ == "__main__":
    main()
