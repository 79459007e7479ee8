"""Trace steps with RunOptions.FULL_TRACE, and print what RunMetadata has of transfers.

A step reads a large and a small variable and strings of the ps on the worker, and adds a large
tensor back. Stock switches the records of its other tasks on without waiting for them, so a step
may miss some: steps are traced until one has all, and the union is told.
"""

import json
import re

import numpy as np
from client import PROTOCOL, answer, taken, target, tf
from tensorflow.python.client import timeline

v1 = tf.compat.v1
SIZE = 300_000
EDGES = 4
LABEL = re.compile(r"(?P<edge>edge_\d+_\S+)")


def build():
    with tf.device("/job:ps/task:0"):
        large = v1.get_variable("large", initializer=np.ones(SIZE, np.float32), use_resource=True)
        small = v1.get_variable("small", initializer=np.ones(10, np.float32), use_resource=True)
        words = v1.placeholder_with_default(tf.constant(["fern", "moss"]), [2], name="words")
    with tf.device("/job:worker/task:0"):
        letters = tf.cast(tf.reduce_sum(tf.strings.length(words)), tf.float32)
        root = tf.reduce_sum(tf.sqrt(large.read_value()))
        total = root + tf.reduce_sum(small.read_value()) + letters
        change = v1.random_uniform([SIZE])
    with tf.device("/job:ps/task:0"):
        update = large.assign_add(change)
    return [total, update.op]


def transfers(metadata):
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            if node.node_name not in ("RecvTensor", "SendTensor"):
                continue
            size = node.output[0].tensor_description.allocation_description.requested_bytes
            yield {
                "device": device.device,
                "node": node.node_name,
                "edge": LABEL.search(node.timeline_label).group("edge"),
                "bytes": size,
                "label": node.timeline_label,
                "starts": node.all_start_micros,
                "lasts": node.all_end_rel_micros,
            }


def main():
    v1.disable_eager_execution()
    fetches = build()
    full = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    seen = {}
    with v1.Session(target("worker")) as session:
        session.run(v1.global_variables_initializer())
        for _ in range(4):  # edges land from the third tensor on
            taken(session.run, fetches)
        for _ in range(40):
            metadata = v1.RunMetadata()
            taken(session.run, fetches, None, full, metadata)
            found = list(transfers(metadata))
            for one in found:
                seen[one["device"], one["node"], one["edge"], one["bytes"]] = one
            if len(found) == (EDGES if PROTOCOL == "grpc" else 2 * EDGES):
                break
        untraced = v1.RunMetadata()
        taken(session.run, fetches, None, None, untraced)
    chrome = json.loads(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())
    drawn = [event["args"]["op"] for event in chrome["traceEvents"] if event["ph"] == "X"]
    answer(
        {
            "transfers": list(seen.values()),
            "recorded": [one["node"] for one in found],
            "drawn": [op for op in drawn if op in ("RecvTensor", "SendTensor")],
            "untraced": len(list(transfers(untraced))),
        }
    )


if __name__ == "__main__":
    main()
