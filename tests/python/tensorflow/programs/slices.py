"""Kernels that may compute in place, on slices of received tensors: slices.py ... Prints JSON."""

from client import answer, digest, target, tf

v1 = tf.compat.v1
COUNT = 4_096  # four times that, of one byte each, is more than what is pushed inline
TYPES = (
    *(tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.complex64, tf.complex128),
    *(tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
)


def sent(dtype):
    with tf.device("/job:ps/task:0"):
        numbers = tf.random.stateless_uniform([4, COUNT], [7, 7], 0.0, 100.0)
        return tf.cast(numbers, dtype)


def computed(dtype):
    """Each received tensor is sliced once, so that nothing but the slice refers to its memory."""
    with tf.device("/job:worker/task:0"):
        one = tf.constant(1, dtype)
        yield tf.slice(sent(dtype), [1, 0], [1, COUNT]) + one
        yield sent(dtype)[1] * (one + one)
        first, *_ = tf.unstack(sent(dtype))
        yield first - one
        zeros = v1.zeros_initializer()
        kept = v1.get_variable(dtype.name, [COUNT], dtype, zeros, use_resource=True)
        with tf.control_dependencies([kept.assign(sent(dtype)[1], read_value=False)]):
            keep = tf.no_op()
        with tf.control_dependencies([keep]):
            update = kept.assign_add(tf.fill([COUNT], one), read_value=False)
        with tf.control_dependencies([update]):
            yield kept.read_value()


def main():
    v1.disable_eager_execution()
    results = {dtype.name: list(computed(dtype)) for dtype in TYPES}
    config = v1.ConfigProto(operation_timeout_in_ms=60_000)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    session = v1.Session(target("worker"), config=config)
    answer({name: digest(values) for name, values in session.run(results).items()})
    session.close()


if __name__ == "__main__":
    main()
