"""A parameter server, a worker and a client that know nothing of Farwrite."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time

import tensorflow as tf

STEPS = 10


def free_port(taken: set[int]) -> int:
    while True:
        port = random.randrange(20_000, 30_000)  # not one of those that the kernel hands out
        with contextlib.suppress(OSError), socket.create_server(("localhost", port)):
            if port not in taken:
                taken.add(port)
                return port


def client() -> None:
    taken: set[int] = set()
    cluster = {job: [f"localhost:{free_port(taken)}"] for job in ("ps", "worker")}
    environment = {**os.environ, "CLUSTER": json.dumps(cluster)}
    command = (sys.executable, __file__)
    servers = [subprocess.Popen((*command, job), env=environment) for job in cluster]
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(cluster), job_name="client")
    with tf.device("/job:ps/task:0"):
        variable = tf.Variable(tf.ones([512, 512]))

    @tf.function
    def step() -> tf.Tensor:
        with tf.device("/job:worker/task:0"):
            gradient = variable * 0.5
        with tf.device("/job:ps/task:0"):
            variable.assign_sub(gradient * 0.01)
        with tf.device("/job:worker/task:0"):
            return tf.reduce_sum(gradient)

    for _ in range(STEPS):
        total = float(step())
    print("total", total)
    time.sleep(1)  # a server that is killed leaves what it wrote last, a while ago
    for server in servers:
        server.kill()
        server.wait()


if len(sys.argv) > 1:
    tf.distribute.Server(json.loads(os.environ["CLUSTER"]), sys.argv[1], 0).join()
else:
    client()
