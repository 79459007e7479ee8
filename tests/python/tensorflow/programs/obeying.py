"""An eager client that does what lines of JSON say: obeying.py PROTOCOL CLUSTER_JSON.

Its answers are lines of JSON, too: {"right": ...} or {"error": name, "says": text}. The client is
task 0 of the job worker. Tensors that it holds on tasks have numbers; all are start + step * index.
"""

import json
import sys

import numpy as np
from changing import on, own_address, product, server_def
from client import tf
from tensorflow.python.eager import context

HELD = {}


class Calls:
    own = own_address()
    connected = False

    def cluster(self, tasks, hides):
        """Make these the tasks of the cluster, with addresses by their numbers."""
        change = context.update_server_def if self.connected else context.set_server_def
        own = "localhost:0" if hides else self.own
        change(server_def(own, {int(task): address for task, address in tasks.items()}))
        context.ensure_initialized()
        self.connected = True

    def make(self, number, task, start, step, size):
        made = tf.constant(start + step * np.arange(size, dtype=np.float64))
        with on(task):
            HELD[number] = tf.identity(made)

    def move(self, source, number, task, add):
        with on(task):
            HELD[number] = tf.identity(HELD[source]) + float(add)

    def sum(self, left, right, number, task):
        @tf.function
        def function(one, other):
            with on(task):
                return tf.identity(one) + other

        HELD[number] = function(HELD[left], HELD[right])

    def double(self, source, number, task):
        with on(task):
            HELD[number] = product(HELD[source], tf.constant(2.0, tf.float64))

    def fetch(self, number, start, step, size):
        expected = start + step * np.arange(size, dtype=np.float64)
        return int(np.count_nonzero(HELD[number].numpy() != expected))

    def drop(self, numbers):
        for number in numbers:
            del HELD[number]

    def stats(self):
        plugin = sys.modules.get("farwrite.tensorflow")
        return dict(plugin.stats()) if plugin else {}


def there(number, task, **_):
    """Wait until a tensor is on its task: TensorFlow returns as soon as it has asked for it."""
    with on(task):
        tf.identity(HELD[number][0]).numpy()


def main():
    calls = Calls()
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"right": getattr(calls, name)(**arguments)}
            if {"number", "task"} <= arguments.keys():
                there(**arguments)
        except tf.errors.OpError as error:
            answer = {"error": type(error).__name__, "says": error.message[:500]}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
