"""Trains a small network with parameter servers, workers and a chief.

TF_CONFIG says which task a process is: ssh.py, slurm.sh, jobs.yaml and tfjob.yaml in this folder
set it. The chief schedules the steps on the workers. Each step makes its own data, reads the
weights from the parameter servers and updates them. Every task prints the fabrics over which its
tensors travel. `--protocol grpc` is stock TensorFlow, to compare with.
"""

import argparse
import importlib
import time

import tensorflow as tf

FARWRITE = "grpc+farwrite"
WARM_UP = 5
RATE = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(description="Train as the task that TF_CONFIG names.")
    parser.add_argument("--steps", type=int, default=100, help="measured (default: 100)")
    parser.add_argument("--units", type=int, default=1024, help="of a layer (default: 1024)")
    parser.add_argument("--batch", type=int, default=32, help="samples of a step (default: 32)")
    parser.add_argument("--protocol", choices=("grpc", FARWRITE), default=FARWRITE)
    arguments = parser.parse_args()
    if arguments.protocol == FARWRITE:
        importlib.import_module("farwrite.tensorflow")  # before any code creates a tensor
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer=arguments.protocol)
    fabrics = Fabrics(f"{resolver.task_type}:{resolver.task_id}", arguments.protocol)
    if resolver.task_type == "chief":
        train(resolver, arguments.steps, arguments.units, arguments.batch)
        fabrics.print_new()
    else:
        serve(resolver, fabrics)


class Fabrics:
    """Prints over which fabric the tasks of each host are reached."""

    def __init__(self, task: str, protocol: str) -> None:
        self._task, self._protocol = task, protocol
        self._printed: set[str] = set()

    def print_new(self) -> None:
        """Print those that were not printed yet."""
        for line in self._lines():
            if line not in self._printed:
                self._printed.add(line)
                print(f"{self._task}: {line}", flush=True)

    def _lines(self) -> list[str]:
        if self._protocol != FARWRITE:
            return ["all peers over gRPC"]
        links = importlib.import_module("farwrite.tensorflow").stats()["links"]
        return [
            f"{link['peer'].rpartition(':')[0]} over {link['fabric'] or link['transport']}"
            for link in links
            if link["transport"] != "pending"
        ]


def serve(resolver: tf.distribute.cluster_resolver.ClusterResolver, fabrics: Fabrics) -> None:
    """Serve as a parameter server or a worker, until the process is ended."""
    server = tf.distribute.Server(
        resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol=resolver.rpc_layer
    )
    print(f"{resolver.task_type}:{resolver.task_id}: serves at {server.target}", flush=True)
    while True:
        fabrics.print_new()
        time.sleep(1)


def train(
    resolver: tf.distribute.cluster_resolver.ClusterResolver, steps: int, units: int, batch: int
) -> None:
    """Train two layers to return their input, and print steps/s and the loss."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():  # spreads the variables over the parameter servers in turn
        layers = [tf.Variable(tf.random.normal([units, units]) * units**-0.5) for _ in range(2)]

    @tf.function
    def step() -> tf.Tensor:
        inputs = tf.random.normal([batch, units])
        with tf.GradientTape() as tape:
            outputs = inputs
            for layer in layers:
                outputs = outputs @ layer
            loss = tf.reduce_sum(tf.square(outputs - inputs)) / batch
        for layer, gradient in zip(layers, tape.gradient(loss, layers), strict=True):
            layer.assign_sub(RATE * gradient)
        return loss

    warm_up = [coordinator.schedule(step) for _ in range(WARM_UP)]
    coordinator.join()
    start = time.perf_counter()
    measured = [coordinator.schedule(step) for _ in range(steps)]
    coordinator.join()
    rate = steps / (time.perf_counter() - start)
    before, after = warm_up[0].fetch(), measured[-1].fetch()
    print(f"chief:0: {steps} steps, {rate:.1f} steps/s, loss {before:.1f} to {after:.1f}")


if __name__ == "__main__":
    main()
