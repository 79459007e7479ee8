"""One worker of a MultiWorkerMirroredStrategy: collectives.py PROTOCOL ADDRESSES_JSON INDEX.

Says "joined", then answers lines on stdin: "check", "stats", "loop" and "cancel".
"""

import hashlib
import json
import os
import sys
import threading

from task import load, stats

SIZES = {"scalar": (), "odd": (1021,), "edge": (2, 2048), "eight_megabytes": (1024, 2048)}
DTYPES = ("float32", "float64", "int32")


def strategy_of(tf, protocol, addresses, index):
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": index},
            "rpc_layer": protocol,
        }
    )
    return tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
    )


def digest(tensor):
    return hashlib.sha256(tensor.numpy().tobytes()).hexdigest()[:16]


def value(tf, shape, dtype, index):
    """The same in every run, and another for each worker; sums of it round."""
    count = 1
    for side in shape:
        count *= side
    numbers = tf.range(count, dtype="int32") * 7919 % 10007 + index * 31
    if dtype != "int32":
        numbers = tf.cast(numbers, dtype) / 7
    return tf.reshape(numbers, shape)


def raw_collectives(tf, index, workers):
    """The ops themselves, in one function each: reduction, all-gather, broadcast and the rest."""
    results = {}
    key = 7000
    common = {"group_size": workers, "group_key": 77, "timeout_seconds": 60.0}
    second = {"communication_hint": "ring", "timeout_seconds": 60.0}

    for name, shape in SIZES.items():
        for dtype in DTYPES:
            mine = value(tf, shape, dtype, index)
            key += 10

            @tf.function
            def reduce(mine, key=key):
                return tf.raw_ops.CollectiveReduceV2(
                    input=mine,
                    instance_key=key,
                    ordering_token=[],
                    merge_op="Add",
                    final_op="Id",
                    group_size=workers,
                    group_key=77,
                    **second,
                )

            @tf.function
            def gather(mine, key=key):
                return tf.raw_ops.CollectiveGatherV2(
                    input=tf.reshape(mine, [-1]),
                    instance_key=key + 1,
                    ordering_token=[],
                    group_size=workers,
                    group_key=77,
                    **second,
                )

            @tf.function
            def broadcast(mine, key=key, shape=shape, dtype=dtype):
                if index == 0:
                    return tf.raw_ops.CollectiveBcastSendV2(
                        input=mine, instance_key=key + 2, communication_hint="auto", **common
                    )
                return tf.raw_ops.CollectiveBcastRecvV2(
                    T=dtype,
                    shape=tf.constant(shape, tf.int32),
                    instance_key=key + 2,
                    communication_hint="auto",
                    **common,
                )

            for kind, op in (("reduce", reduce), ("gather", gather), ("broadcast", broadcast)):
                for _ in range(2):  # the second time with the same keys
                    results[f"{kind} {name} {dtype}"] = digest(op(mine))
    return results


def trained(tf, strategy):
    """A few steps of a training loop of its own."""
    with strategy.scope():
        weights = tf.Variable(tf.ones([300, 40]))
        bias = tf.Variable(tf.zeros([40]))

    def compute(step):
        replica = tf.distribute.get_replica_context()
        rank = tf.cast(replica.replica_id_in_sync_group, tf.float32)
        with tf.GradientTape() as tape:
            inputs = tf.reshape(tf.range(3000, dtype=tf.float32), [10, 300]) / (3001 + rank + step)
            loss = tf.reduce_mean(tf.square(inputs @ weights + bias - 1))
        gradients = replica.all_reduce("sum", tape.gradient(loss, [weights, bias]))
        for variable, gradient in zip((weights, bias), gradients, strict=True):
            variable.assign_sub(0.01 * gradient)
        return loss

    @tf.function
    def step(number):
        return strategy.reduce("sum", strategy.run(compute, args=(number,)), axis=None)

    losses = [float(step(tf.constant(float(number)))) for number in range(5)]
    return {"losses": losses, "weights": digest(weights.values[0]), "bias": digest(bias.values[0])}


def check(tf, strategy, index):
    # stats come from where the collectives went: start from zero
    results = {"training": trained(tf, strategy)}
    results["raw"] = raw_collectives(tf, index, strategy.num_replicas_in_sync)
    return results


def loop(tf, workers):
    """Reductions until one fails."""

    @tf.function
    def reduce(mine):
        return tf.raw_ops.CollectiveReduceV2(
            input=mine,
            instance_key=9000,
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            group_size=workers,
            group_key=77,
            communication_hint="ring",
        )

    mine = tf.ones([1024, 2048])
    for number in range(100000):
        try:
            reduce(mine)
        except tf.errors.OpError as error:
            return {"failed": type(error).__name__, "message": error.message}
        if number == 0:
            print("looping", flush=True)
    return {"failed": None}


def main():
    protocol, addresses, index = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    tf = load(protocol)
    strategy = strategy_of(tf, protocol, addresses, index)
    print("joined", flush=True)
    answers = {
        "check": lambda: check(tf, strategy, index),
        "stats": stats,
        "loop": lambda: loop(tf, len(addresses)),
    }
    for line in sys.stdin:
        print(json.dumps(answers[line.strip()](), default=str), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
