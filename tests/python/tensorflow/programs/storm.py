"""Steps that are given up while their tensors are on the way: storm.py ... ROUNDS...

After each number of rounds it says "did ROUNDS" and waits for a line. Steps of sessions run into
random deadlines, sessions are closed under a step, and functions are cancelled, two threads each. A
step moves 7 MB to the worker and back. What was not given up must be right. After its answer, and
one more line, it goes on until it is killed.
"""

import itertools
import random
import sys
import threading
import time

from client import ADDRESSES, ARGUMENTS, PROTOCOL, answer, target, tf
from tensorflow.python.eager import cancellation

v1 = tf.compat.v1
A, B = "/job:ps/task:0", "/job:worker/task:0"
LOCAL = "/job:localhost/task:0/device:CPU:0"
SIZES = [1_000_000, 500_000, 3000, 100, 250_000, 30_000]
# How a step ends that was given up; a closed session says RuntimeError when it is used again.
GIVEN_UP = (
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
    tf.errors.AbortedError,
    RuntimeError,
)


def there_and_back(base):
    """Sums of what went to the worker, was doubled there and came back."""
    sums = []
    for size in SIZES:
        with tf.device(A):
            sent = tf.fill([size], base)
        with tf.device(B):
            doubled = sent * 2.0
        with tf.device(A):
            sums.append(tf.reduce_max(doubled) + tf.reduce_min(doubled))
    with tf.device(A):
        return tf.add_n(sums)


# Set when a call runs on both tasks, by what it was fed.
RUNNING = {}


def runs(from_a, from_b):
    RUNNING[int(from_a)].set()
    return from_b


def for_the_client(base):
    """Returns them on the client: TensorFlow keeps a cancelled call's results on other tasks."""
    total = there_and_back(base)
    with tf.device(A):
        from_a = tf.reduce_max(tf.fill([10], base))
    with tf.device(B):
        filled = tf.fill([200_000], base)
        from_b = tf.reduce_max(tf.fill([10], base))
    with tf.device(LOCAL):
        running = tf.numpy_function(runs, [from_a, from_b], tf.float32)
        return tf.identity(total), filled * 1.0, running


def checked(results):
    total, filled, _ = results
    return total.numpy() if set(filled.numpy()) == {total.numpy() / (4.0 * len(SIZES))} else None


class Storm:
    def __init__(self):
        self.lock = threading.Lock()
        self.outcomes = {}
        self.wrong = []
        self.feds = itertools.count()
        with tf.Graph().as_default() as self.graph:
            with tf.device(A):
                self.base = v1.placeholder(tf.float32, [])
            self.total = there_and_back(self.base)
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec(ADDRESSES), protocol=PROTOCOL
        )
        self.function = tf.function(for_the_client).get_concrete_function(
            tf.TensorSpec([], tf.float32)
        )

    def attempt(self, kind, fed, run):
        try:
            value = run(fed)
            if value != 4.0 * len(SIZES) * fed:
                self.wrong.append([kind, fed, str(value)])
            ended = "done"
        except GIVEN_UP as error:
            ended = type(error).__name__
        with self.lock:
            self.outcomes[f"{kind}: {ended}"] = self.outcomes.get(f"{kind}: {ended}", 0) + 1
        return ended

    def step(self, session, options=None):
        return lambda fed: session.run(self.total, {self.base: fed}, options)

    def deadlines(self, rounds, chance):
        with v1.Session(target("worker"), graph=self.graph) as session:
            for fed in range(rounds):
                options = v1.RunOptions(timeout_in_ms=chance.randrange(1, 150))
                self.attempt("deadline", fed, self.step(session, options))

    def closed(self, rounds, chance):
        for _ in range(rounds // 4):
            session = v1.Session(target("worker"), graph=self.graph)
            self.attempt("closed", 1, self.step(session))
            closer = threading.Timer(chance.uniform(0.001, 0.15), session.close)
            closer.start()
            while self.attempt("closed", 2, self.step(session)) == "done":
                pass
            closer.join()

    def cancelled(self, rounds, chance):
        """Cancels calls that run on both tasks.

        TensorFlow, stock as well, loses a cancellation that comes while it sends a call to a task
        (CallOptions::StartCancel does nothing before SetCancelCallback). That task then waits for
        tensors that a cancelled task never sends.
        """
        for _ in range(rounds):
            fed = next(self.feds)
            running = RUNNING[fed] = threading.Event()
            manager = cancellation.CancellationManager()
            call = manager.get_cancelable_function(self.function)

            delay = chance.uniform(0, 0.05)

            def cancel(running=running, manager=manager, delay=delay):
                running.wait()
                time.sleep(delay)
                manager.start_cancel()

            canceller = threading.Thread(target=cancel)
            canceller.start()
            self.attempt(
                "cancelled", fed, lambda fed, call=call: checked(call(tf.constant(float(fed))))
            )
            running.set()  # if the call failed before
            canceller.join()
            del RUNNING[fed]

    def rage(self, rounds, seed):
        threads = [
            threading.Thread(target=work, args=(rounds, random.Random(seed + number)))
            for number, work in enumerate((self.deadlines, self.closed, self.cancelled) * 2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main():
    storm = Storm()
    for seed, rounds in enumerate(map(int, ARGUMENTS)):
        storm.rage(rounds, seed)
        print(f"did {rounds}", flush=True)
        sys.stdin.readline()
    answer({"outcomes": dict(sorted(storm.outcomes.items())), "wrong": storm.wrong})
    if sys.stdin.readline():
        storm.rage(1_000_000, 0)


if __name__ == "__main__":
    main()
