"""Steps between two tasks, one for each line of its input, on command: answers with a digest.

A line is a number of steps and a case's name.
"""

import sys

import numpy as np
from client import ADDRESSES, PROTOCOL, answer, digest, settle, tf

A, B = "/job:ps/task:0", "/job:worker/task:0"
COUNT = 40_000
LOCAL_COUNT = 500_000


def draw(step, count=COUNT):
    return tf.random.stateless_uniform([count], [7, step])


class Training:
    """A variable that is read and updated every step: it and its gradient cross."""

    def __init__(self):
        with tf.device(A):
            self.weights = tf.Variable(tf.random.stateless_normal([COUNT], [1, 1]))

    @tf.function
    def step(self, number):
        with tf.device(B):
            # 2 MB that stay where they are; none is below 0.
            local = tf.reduce_sum(tf.sqrt(draw(number, LOCAL_COUNT)))
            gradient = tf.sin(self.weights) * 0.1 + tf.minimum(local, 0.0)
        with tf.device(A):
            self.weights.assign_sub(gradient)
        return self.weights.read_value()


class Frozen:
    """A variable that never changes; its memory is what a client sent, which no operation made."""

    def __init__(self):
        with tf.device(A):
            self.weights = tf.Variable(np.linspace(0.0, 1.0, COUNT, dtype=np.float32))

    @tf.function
    def step(self, number):
        with tf.device(B):
            return self.weights * tf.cast(number, tf.float32)


class Passed:
    """What is sent is a view of what another operation allocated, or its buffer in new hands."""

    @tf.function
    def step(self, number):
        with tf.device(A):
            drawn = draw(number, 2 * COUNT)
            view = tf.identity(tf.reshape(drawn, [2, COUNT])[1])
            forwarded = tf.nn.relu(tf.sqrt(draw(number + 1) + 1.0) - 1.2)
        with tf.device(B):
            return view * 2.0 - forwarded


class Shapes:
    """Below what is allocated apart, above, and back."""

    @tf.function(reduce_retracing=True)
    def step(self, number):
        count = tf.gather([100, 50_000, 20_000, 100, 70_000], number % 5)
        with tf.device(A):
            drawn = draw(number, count) + 1.0
        with tf.device(B):
            return tf.sqrt(drawn)


CASES = {case.__name__.lower(): case for case in (Training, Frozen, Passed, Shapes)}


def main():
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(ADDRESSES), protocol=PROTOCOL)
    made, numbers = {}, {}
    answer("ready")
    for line in sys.stdin:
        times, name = line.split()
        if name not in made:
            made[name] = CASES[name]()
        for _ in range(int(times)):
            numbers[name] = numbers.get(name, 0) + 1
            result = digest(made[name].step(tf.constant(numbers[name])))  # an eager copy each time
        settle()
        answer(result)


if __name__ == "__main__":
    main()
