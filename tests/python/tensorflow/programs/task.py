"""A task of a test's cluster: task.py PROTOCOL CLUSTER_JSON JOB INDEX. Answers lines on stdin."""

import json
import os
import sys


def load(protocol):
    import tensorflow as tf

    if os.environ.get("FARWRITE_TEST_LATE"):
        tf.constant(1.0)
    if protocol != "grpc":
        import farwrite.tensorflow  # noqa: F401
    return tf


def stats():
    plugin = sys.modules.get("farwrite.tensorflow")
    return dict(plugin.stats()) if plugin else {}


def main():
    protocol, cluster, job, index = sys.argv[1:5]
    tf = load(protocol)
    server = tf.distribute.Server(
        json.loads(cluster), job_name=job, task_index=int(index), protocol=protocol, start=True
    )
    print("up", flush=True)
    for line in sys.stdin:
        if line.strip() == "stats":
            descriptors = len(os.listdir("/proc/self/fd"))
            with open("/proc/self/statm") as statm:
                resident = int(statm.read().split()[1]) * 4096
            facts = {"descriptors": descriptors, "resident": resident, **stats()}
            print(json.dumps(facts, default=str), flush=True)
        elif line.strip() == "edges":
            print(json.dumps(sys.modules["farwrite.tensorflow"].edges()), flush=True)
    del server
    os._exit(0)


if __name__ == "__main__":
    main()
