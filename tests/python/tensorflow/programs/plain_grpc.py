"""A parameter server, a worker and a client that know nothing of Farwrite."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time

import tensorflow as tf

STEPS = 10


def client() -> None:
    ports = random.sample(range(20_000, 30_000), 2)  # not of those that the kernel hands out
    cluster = {
        job: [f"localhost:{port}"] for job, port in zip(("ps", "worker"), ports, strict=True)
    }
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
