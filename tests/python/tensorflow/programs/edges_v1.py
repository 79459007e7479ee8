"""One edge from ps to worker of every kind, by names that the test knows. Two steps."""

import numpy as np
from client import ARGUMENTS, answer, target, tf
from tensorflow.core.protobuf import config_pb2

v1 = tf.compat.v1
PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
SIZE = 3000


def add_one(count, value):
    with tf.device(PS):
        there = tf.add(value, 1.0, name="looped")
    with tf.device(WORKER):
        return count + 1, tf.multiply(there, 2.0, name="back")


def main():
    v1.disable_eager_execution()
    v1.disable_control_flow_v2()
    with tf.device(PS):
        feed = v1.placeholder(tf.float32, [None, 4], name="feed")
        flag = v1.placeholder(tf.bool, [], name="flag")
        ref = v1.get_variable("ref", initializer=np.zeros(SIZE, np.float32), use_resource=False)
        variable = v1.get_variable("variable", initializer=np.ones(SIZE, np.float32))
        sent = {
            "static": tf.random.stateless_uniform([SIZE], [1, 2], name="static"),
            "dynamic": tf.multiply(feed, 2.0, name="dynamic"),
            "string": tf.strings.as_string(tf.range(5), name="string"),
            "ref": ref,
            "variable": variable.read_value(),
        }
        branch = v1.cond(
            flag, lambda: tf.ones([SIZE]) * 2.0, lambda: tf.zeros([SIZE]) + 1.0, name="branch"
        )
        sent["branch"] = tf.negative(branch, name="branched")
    with tf.device(WORKER):
        taken = {name: tf.identity(tensor, name=f"take_{name}") for name, tensor in sent.items()}
        start = tf.zeros([7], name="start")
        _, looped = tf.while_loop(lambda count, _: count < 3, add_one, [tf.constant(0), start])
    config = v1.ConfigProto()
    # So that every node keeps its name.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0
    with v1.Session(target("worker"), config=config) as session:
        session.run(v1.global_variables_initializer())
        fetches = [*(tensor.op for tensor in taken.values()), looped]
        for rows in (2, 3):
            session.run(fetches, {feed: np.ones((rows, 4)), flag: True})
    if ARGUMENTS:
        v1.train.export_meta_graph(ARGUMENTS[0])
    answer({})


if __name__ == "__main__":
    main()
