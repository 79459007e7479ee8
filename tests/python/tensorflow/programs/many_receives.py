"""A step that waits for thousands of tensors, none of which comes: many_receives.py ... COUNT."""

from client import ARGUMENTS, answer, target, tf
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

v1 = tf.compat.v1


def main():
    v1.disable_eager_execution()
    with tf.device("/job:ps/task:0"):
        never = v1.FIFOQueue(1, [tf.float32], [[]], shared_name="never").dequeue()
        with tf.control_dependencies([never]):
            sent = [tf.identity(never, name=f"sent{i}") for i in range(int(ARGUMENTS[0]))]
    with tf.device("/job:worker/task:0"):
        waits = tf.group(*[tf.negative(one) for one in sent])
        works = tf.negative(v1.placeholder_with_default(tf.constant(1.0), []))
    rewriting = config_pb2.GraphOptions(
        rewrite_options=rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=True)
    )
    config = v1.ConfigProto(operation_timeout_in_ms=8000, graph_options=rewriting)
    error = ""
    with v1.Session(target("worker"), config=config) as session:
        session.run(works)
        try:
            session.run(waits)
        except tf.errors.OpError as failure:
            error = type(failure).__name__
    with v1.Session(target("worker")) as session:
        answer({"error": error, "after": float(session.run(works))})


if __name__ == "__main__":
    main()
