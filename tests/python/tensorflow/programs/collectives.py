"""One worker of a MultiWorkerMirroredStrategy: collectives.py PROTOCOL ADDRESSES_JSON INDEX.

Says "joined", then answers lines on stdin: "check", "train again", "graph", "stats", "reduce",
"cancel", "abort", "loop" and "mismatch".
"""

import hashlib
import json
import os
import sys
import threading
import time

from task import load, stats

SIZES = {"scalar": (), "odd": (1021,), "edge": (2, 2048), "eight_megabytes": (1024, 2048)}
SIDE = 1024
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
    """Every kind, size and dtype, all in one function and so at the same time, twice."""
    common = {"group_size": workers, "group_key": 77, "timeout_seconds": 60.0}
    ring = {**common, "communication_hint": "ring"}
    tree = {**common, "communication_hint": "auto"}

    def collectives(mine, shape, dtype, key):
        flat = tf.reshape(mine, [-1])
        yield (
            "reduce",
            tf.raw_ops.CollectiveReduceV2(
                input=mine,
                instance_key=key,
                ordering_token=[],
                merge_op="Add",
                final_op="Id",
                **ring,
            ),
        )
        yield (
            "gather",
            tf.raw_ops.CollectiveGatherV2(
                input=flat, instance_key=key + 1, ordering_token=[], **ring
            ),
        )
        if index == 0:
            yield (
                "broadcast",
                tf.raw_ops.CollectiveBcastSendV2(input=mine, instance_key=key + 2, **tree),
            )
        else:
            yield (
                "broadcast",
                tf.raw_ops.CollectiveBcastRecvV2(
                    T=dtype, shape=tf.constant(shape, tf.int32), instance_key=key + 2, **tree
                ),
            )
        yield (
            "exchange",
            tf.raw_ops.CollectiveAllToAllV2(
                input=tf.stack([flat, flat + 1]), instance_key=key + 3, ordering_token=[], **tree
            ),
        )

    @tf.function
    def everything(number):
        results, key = {}, 7000
        for name, shape in SIZES.items():
            for dtype in DTYPES:
                key += 10
                mine = value(tf, shape, dtype, index) + tf.cast(number, dtype)
                for kind, result in collectives(mine, shape, dtype, key):
                    results[f"{kind} {name} {dtype}"] = result
        return results

    return [
        {name: digest(result) for name, result in everything(tf.constant(number)).items()}
        for number in range(2)
    ]


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


def graph(tf, strategy):
    """Sum the workers' ranks, each plus one, by a session of this worker's server, with a trace.

    For the trace, TensorFlow goes through all sessions of the servers.
    """
    with tf.Graph().as_default(), strategy.scope():
        rank = strategy.run(lambda: tf.distribute.get_replica_context().replica_id_in_sync_group)
        total = strategy.reduce("sum", rank + 1, axis=None)
        config = strategy.update_config_proto(tf.compat.v1.ConfigProto())
        with tf.compat.v1.Session(strategy.cluster_resolver.master(), config=config) as session:
            options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
            metadata = tf.compat.v1.RunMetadata()
            return int(session.run(total, options=options, run_metadata=metadata))


def check(tf, strategy, index):
    results = {"training": trained(tf, strategy)}
    results["raw"] = raw_collectives(tf, index, strategy.num_replicas_in_sync)
    return results


def reduction(tf, workers):
    @tf.function(input_signature=[tf.TensorSpec([SIDE, SIDE])])
    def reduce(mine):
        total = tf.raw_ops.CollectiveReduceV2(
            input=mine,
            instance_key=9000,
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            group_size=workers,
            group_key=77,
            communication_hint="ring",
        )
        return tf.reduce_max(total)

    concrete = reduce.get_concrete_function()

    def run(number, manager=None):
        function = manager.get_cancelable_function(concrete) if manager else concrete
        return float(function(tf.fill([SIDE, SIDE], tf.constant(float(number)))))

    return run


def attempt(tf, run, *arguments):
    try:
        return {"value": run(*arguments)}
    except tf.errors.OpError as error:
        return {"failed": type(error).__name__, "message": error.message}


def cancel(tf, run):
    """Send, while the other worker does not take part, and be cancelled."""
    from tensorflow.python.eager.cancellation import CancellationManager

    manager, before = CancellationManager(), stats()["collective_pushes"]

    def cancel_once_sent():
        while stats()["collective_pushes"] == before:
            time.sleep(0.001)
        manager.start_cancel()

    thread = threading.Thread(target=cancel_once_sent)
    thread.start()
    result = attempt(tf, run, 1000, manager)
    thread.join()
    return result


def abort(tf):
    """Abort this worker's collectives once the other one has sent something and waits."""
    from tensorflow.python.eager import context

    while stats()["waiting_tensors"] == 0:
        time.sleep(0.001)
    context.context().abort_collective_ops(tf.errors.ABORTED, "the test said so")
    return True


def mismatch(tf, strategy):
    """Gather what has another rank at the last worker, which fails before it sends anything."""
    last = strategy.num_replicas_in_sync - 1

    def mine(context):
        return tf.ones([1, 2] if context.replica_id_in_sync_group == last else [1])

    mine = strategy.experimental_distribute_values_from_function(mine)
    return attempt(tf, lambda: strategy.gather(mine, axis=0).numpy().tolist())


def loop(tf, run):
    """Reductions until one fails."""
    result = attempt(tf, run, 1)
    print("looping", flush=True)
    while "failed" not in result:
        result = attempt(tf, run, 1)
    return result


def main():
    protocol, addresses, index = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    tf = load(protocol)
    strategy = strategy_of(tf, protocol, addresses, index)
    run = reduction(tf, len(addresses))
    print("joined", flush=True)
    answers = {
        "check": lambda: check(tf, strategy, index),
        "train again": lambda: trained(tf, strategy_of(tf, protocol, addresses, index)),
        "graph": lambda: graph(tf, strategy_of(tf, protocol, addresses, index)),
        "stats": stats,
        "reduce": lambda: attempt(tf, run, index + 1),
        "cancel": lambda: cancel(tf, run),
        "abort": lambda: abort(tf),
        "loop": lambda: loop(tf, run),
        "mismatch": lambda: mismatch(tf, strategy),
    }
    for line in sys.stdin:
        print(json.dumps(answers[line.strip()](), default=str), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
