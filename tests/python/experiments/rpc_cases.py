"""The client of test_rpc_over_fabric.py: runs steps whose tensors cross two tasks.

Each message is the name of a case and, mostly, the target of a session. The answer is a digest of
the results, or the text of TensorFlow's error.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import tensorflow

from farwrite_experiments import library
from farwrite_experiments.rpc_over_fabric import PEERS, RPC_OVER_FABRIC

tf: Any = tensorflow
v1 = tf.compat.v1
A, B = "/job:ps/task:0", "/job:worker/task:0"
CASES: dict[str, Callable[[str], Any]] = {}
MANY = 8
OPEN: list[tuple[Any, Any]] = []
"""Sessions with their fetches."""
LARGE = 16 << 20
"""Elements of the tensor that is larger than the ring: 64 MiB."""


def case(function: Callable[[str], Any]) -> Callable[[str], Any]:
    CASES[function.__name__] = function
    return function


def session(target: str) -> Any:
    """Open a session that runs the graph as written."""
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return v1.Session(target, config=config)


def random(count: int, dtype: Any = tf.float32) -> Any:
    return tf.random.stateless_uniform([count], [1, count], 0, 1000, dtype)


def floats_of_each_size() -> Any:
    """Make MANY tensors that cross the tasks."""
    results = []
    for count in (1, 200, 257, 300, 20_000, 70_000, 1_500_000, 3_000_000):
        with tf.device(A):
            sent = random(count)
        with tf.device(B):
            results.append(sent * 2)
    assert len(results) == MANY
    return results


@case
def floats(target: str) -> Any:
    """One tensor of each size: MANY in all."""
    with session(target) as running:
        return running.run(floats_of_each_size())


@case
def opens_a_session(target: str) -> Any:
    """As floats, in a session that stays open."""
    results = floats_of_each_size()
    running = session(target)
    OPEN.append((running, results))
    return running.run(results)


@case
def goes_on(_target: str) -> Any:
    """The same step, in the session that was left open."""
    running, results = OPEN.pop()
    with running:
        return running.run(results)


@case
def strings(target: str) -> Any:
    with tf.device(A):
        small = tf.strings.as_string(random(10, tf.int32))
        large = tf.strings.as_string(random(50_000, tf.int32))
    with tf.device(B):
        results = [tf.strings.join([small, "x"]), tf.strings.length(large), tf.identity(large)]
    with session(target) as running:
        return running.run(results)


@case
def nothing(target: str) -> Any:
    with tf.device(A):
        sent = tf.zeros([0, 3]) + random(1)
    with tf.device(B):
        result = tf.concat([sent, tf.ones([1, 3])], 0)
    with session(target) as running:
        return running.run([result, tf.shape(sent)])


@case
def dead(target: str) -> Any:
    """Of each pair of tensors one is dead, and the other one is merged."""
    merged = []
    with tf.device(A):
        sent = random(5000)
    for taken in (False, True):
        with tf.device(A):
            branches = tf.raw_ops.Switch(data=sent, pred=tf.constant(taken))
        with tf.device(B):
            doubled = [branches.output_false * 2, branches.output_true * 3]
            merged.append(tf.raw_ops.Merge(inputs=doubled).output)
    with session(target) as running:
        return running.run(merged)


@case
def larger_than_the_ring(target: str) -> Any:
    with tf.device(A):
        sent = tf.range(LARGE)
    with tf.device(B):
        weights = tf.cast(tf.range(LARGE) % 1009, tf.int64)
        result = tf.reduce_sum(tf.cast(sent, tf.int64) * weights)
    with session(target) as running:
        return running.run(result)


@case
def both_ways_at_once(target: str) -> Any:
    with tf.device(A):
        ours = random(2_000_000)
    with tf.device(B):
        theirs = random(2_000_001)
        there = ours + 1
    with tf.device(A):
        back = theirs + 1
        again = tf.concat([there, back], 0)
    with session(target) as running:
        return [running.run(again) for _ in range(3)]


def waiting_step() -> Any:
    """Make a step whose tensor never comes."""
    with tf.device(A):
        queue = tf.queue.FIFOQueue(1, [tf.float32], shapes=[[]])
        sent = queue.dequeue()
    with tf.device(B):
        return sent + 1


@case
def waits(target: str) -> Any:
    with session(target) as running:
        return running.run(waiting_step())


@case
def stops_waiting(target: str) -> Any:
    """The first step ends at its time limit. The next one runs."""
    waiting = waiting_step()
    with tf.device(A):
        sent = random(1000)
    with tf.device(B):
        result = sent + 1
    with session(target) as running:
        try:
            running.run(waiting, options=v1.RunOptions(timeout_in_ms=1000))
        except tf.errors.DeadlineExceededError:
            return running.run(result)
    return "the step did not end at its time limit"


@case
def server(peers: str) -> Any:
    """Make a server of rpc-over-fabric here, with these peers, which must be refused."""
    os.environ[PEERS] = peers
    library.load()
    tf.distribute.Server({"ps": ["127.0.0.1:0"]}, "ps", 0, protocol=RPC_OVER_FABRIC.protocol)
    return "it was not refused"


def digest(results: Any) -> str:
    found = hashlib.sha256()
    for value in results if isinstance(results, list) else [results]:
        array = np.asarray(value)
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    return found.hexdigest()


def main(control: Connection) -> None:
    control.send("ready")
    while True:
        name, target = control.recv()
        try:
            with tf.Graph().as_default():
                answer = digest(CASES[name](target))
        except tf.errors.OpError as error:
            answer = f"{type(error).__name__}: {error.message}"
        control.send(answer)
