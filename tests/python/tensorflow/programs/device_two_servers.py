"""Devices of two servers in one process: device_two_servers.py ... Prints what it found."""

import sys

import numpy as np
from client import answer, tf

from farwrite_bench.cluster.process import free_ports

v1 = tf.compat.v1


def main():
    v1.disable_eager_execution()
    jobs = ("ps", "worker")
    addresses = {job: [f"127.0.0.1:{port}"] for job, port in zip(jobs, free_ports(2), strict=True)}
    servers = [tf.distribute.Server(addresses, job, 0, protocol="grpc+farwrite") for job in jobs]
    with tf.device("/job:ps/task:0/device:CPU:0"):
        fed = v1.placeholder(tf.float32, [None])
        filled = fed + 1.0
    with tf.device("/job:ps/task:0/device:FARTEST:0"):
        sent = tf.identity(filled)
    with tf.device("/job:worker/task:0/device:FARTEST:1"):
        doubled = sent * 2.0
    with tf.device("/job:worker/task:0/device:CPU:0"):
        root = tf.sqrt(sent)
    right = True
    with v1.Session(servers[1].target) as session:
        for size in (1, 100, 100_000, 0, 100_000):
            numbers = np.arange(size, dtype=np.float32)
            got = session.run([doubled, root], {fed: numbers})
            right &= np.array_equal(got[0], 2 * (numbers + 1))
            right &= np.array_equal(got[1], np.sqrt(numbers + 1))
    answer({"right": bool(right), "stats": dict(sys.modules["farwrite.tensorflow"].stats())})


if __name__ == "__main__":
    main()
