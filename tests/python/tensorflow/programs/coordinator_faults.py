"""A ClusterCoordinator whose tasks are killed: coordinator_faults.py ... VICTIM.

Prints "running" once steps have worked, and answers with how it went on.
"""

import sys
import threading

from client import ADDRESSES, ARGUMENTS, PROTOCOL, answer, tf
from tensorflow.python.distribute.coordinator import cluster_coordinator

VICTIM = ARGUMENTS[0]
SIZE = 100_000
READS = 20


def main():
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(ADDRESSES), rpc_layer=PROTOCOL
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        variable = tf.Variable(tf.ones([SIZE]))

    @tf.function
    def step():
        total = tf.constant(0.0)
        for _ in tf.range(READS):
            total += tf.reduce_sum(variable.read_value())
        return total

    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), told.set()), daemon=True).start()
    error, done, wrong = None, 0, 0
    after = 4  # rounds, once the victim was killed and is back, if it comes back
    try:
        while after > 0:
            values = [coordinator.schedule(step) for _ in range(10)]
            coordinator.join()
            wrong += sum(float(value.fetch()) != READS * SIZE for value in values)
            done += len(values)
            after -= told.is_set()
            if done == 20:
                print("running", flush=True)
    except Exception as failure:
        error = failure
    answer(
        {
            "error": error and type(error).__name__,
            "message": str(error),
            "ps_failure": error is not None and cluster_coordinator._is_ps_failure(error),
            "worker_failure": error is not None and cluster_coordinator._is_worker_failure(error),
            "done": done,
            "wrong": wrong,
        }
    )
    sys.stdout.flush()
    import os

    os._exit(0)  # it would wait for the dead


if __name__ == "__main__":
    main()
