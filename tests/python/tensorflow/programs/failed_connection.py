"""A client that fails to connect to a cluster: before it has one, and with one that it keeps."""

import os
import time

from client import ADDRESSES, PROTOCOL, answer, tf

os.environ["GRPC_FAIL_FAST"] = "true"  # or stock waits for the task
WORKER = "/job:worker/task:0/device:CPU:0"
CLIENT = "/job:client/task:0/device:CPU:0"


def connect(addresses):
    """Connect, and return what came of it."""
    try:
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec({"worker": addresses}), job_name="client", protocol=PROTOCOL
        )
        tf.constant(1.0)  # or the first connection is made later
    except tf.errors.OpError as error:
        time.sleep(1)  # what still asks the task goes on meanwhile
        return type(error).__name__
    return "connected"


def there_and_back():
    """A function of the worker's that computes on the client, and so is served there."""

    @tf.function
    def function(number):
        with tf.device(CLIENT):
            doubled = number * 2
        with tf.device(WORKER):
            return doubled + 1

    with tf.device(WORKER):
        return float(function(tf.constant(20.5)))


def main():
    nowhere = ["127.0.0.1:1"]
    attempts = [connect(nowhere), connect(nowhere), connect(ADDRESSES["worker"])]
    values = [there_and_back()]
    attempts.append(connect(nowhere))
    values.append(there_and_back())
    answer({"attempts": attempts, "values": values})


if __name__ == "__main__":
    main()
