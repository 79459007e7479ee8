"""Devices of two servers in one process: device_two_servers.py ... Prints what it found."""

import sys

import numpy as np
from client import answer, tf

from farwrite_bench.cluster.process import free_ports

v1 = tf.compat.v1


def list_of(row):
    empty = tf.raw_ops.EmptyTensorList(
        element_shape=[16], max_num_elements=2, element_dtype=tf.float32
    )
    return tf.raw_ops.TensorListPushBack(input_handle=empty, tensor=row)


def main():
    v1.disable_eager_execution()
    jobs = ("ps", "worker")
    addresses = {job: [f"127.0.0.1:{port}"] for job, port in zip(jobs, free_ports(2), strict=True)}
    servers = [tf.distribute.Server(addresses, job, 0, protocol="grpc+farwrite") for job in jobs]
    with tf.device("/job:ps/task:0/device:CPU:0"):
        fed = v1.placeholder(tf.float32, [None])
        filled = fed + 1.0
        row = filled[:16]
        list_of_host = list_of(row)
    with tf.device("/job:ps/task:0/device:FARTEST:0"):
        sent = tf.identity(filled)
        list_of_device = list_of(row * 2.0)
    with tf.device("/job:worker/task:0/device:FARTEST:1"):
        doubled = sent * 2.0
        length = tf.raw_ops.TensorListLength(input_handle=list_of_host)
    with tf.device("/job:worker/task:0/device:CPU:0"):
        root = tf.sqrt(sent)
        rows = tf.raw_ops.TensorListStack(
            input_handle=list_of_device, element_shape=[16], element_dtype=tf.float32
        )
    right = True
    with v1.Session(servers[1].target) as session:
        for size in (1, 100, 100_000, 0, 100_000):
            numbers = np.arange(size, dtype=np.float32)
            got = session.run([doubled, root], {fed: numbers})
            right &= np.array_equal(got[0], 2 * (numbers + 1))
            right &= np.array_equal(got[1], np.sqrt(numbers + 1))
        got = session.run([length, rows], {fed: np.arange(16)})
        right &= got[0] == 1
        right &= np.array_equal(got[1], [2 * (np.arange(16) + 1)])
    answer({"right": bool(right), "stats": dict(sys.modules["farwrite.tensorflow"].stats())})


if __name__ == "__main__":
    main()
