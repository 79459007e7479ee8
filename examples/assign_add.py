"""Adds a vector of one process to a variable of another, as fast as TensorFlow can.

This is the benchmark of TensorFlow's issues 4498 and 6116: a worker holds the vector, a parameter
server holds the variable, and every step adds the one to the other. The program is stock
TensorFlow 1 style code and starts its parameter server itself. Run it over gRPC, or over both:

    pip install 'tensorflow-cpu==2.21.*'
    python examples/assign_add.py --megabytes 100
    farwrite run --compare -- python examples/assign_add.py --megabytes 100
"""

import argparse
import subprocess
import sys
import time

import tensorflow as tf

v1 = tf.compat.v1


def main() -> None:
    parser = argparse.ArgumentParser(description="Add a worker's vector to a remote variable.")
    parser.add_argument("--megabytes", type=int, default=100, help="of the vector (default: 100)")
    parser.add_argument("--steps", type=int, default=10, help="measured (default: 10)")
    parser.add_argument("--ps", default="localhost:2222", help="address of the parameter server")
    parser.add_argument("--worker", default="localhost:2223", help="address of the worker")
    parser.add_argument("--job", default="worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    cluster = {"ps": [arguments.ps], "worker": [arguments.worker]}
    server = v1.train.Server(cluster, job_name=arguments.job, task_index=0)
    if arguments.job == "ps":
        sys.stdin.read()  # returns when the worker closes the pipe
        return
    parameter_server = [sys.executable, *sys.argv, "--job", "ps"]
    with subprocess.Popen(parameter_server, stdin=subprocess.PIPE):
        add(server.target, arguments.megabytes, arguments.steps)


def add(target: str, megabytes: int, steps: int) -> None:
    shape = [megabytes * 250_000]  # int32
    with tf.Graph().as_default() as graph:
        with tf.device("/job:worker/task:0"):
            vector = v1.get_variable("vector", shape, tf.int32, v1.ones_initializer())
        with tf.device("/job:ps/task:0"):
            total = v1.get_variable("total", shape, tf.int32, v1.zeros_initializer())
            step = total.assign_add(vector, read_value=False)
            ends = [tf.reduce_min(total), tf.reduce_max(total)]
        initialize = v1.global_variables_initializer()
    with v1.Session(target, graph=graph) as session:
        session.run(initialize)
        session.run(step)  # opens connections: not measured
        start = time.perf_counter()
        for _ in range(steps):
            session.run(step)
        seconds = time.perf_counter() - start
        low, high = session.run(ends)
    print(f"after {steps + 1} steps every element is between {low} and {high}")
    rate = megabytes * steps / seconds / 1000
    print(f"{megabytes} MB added {steps} times: {rate:.2f} GB/s", file=sys.stderr)


if __name__ == "__main__":
    main()
