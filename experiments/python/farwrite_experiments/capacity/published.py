"""The papers' clusters, as far as their conditions are known, and what was measured there.

A prediction takes the conditions of the paper and the costs of this machine. Nothing is adapted to
the published figures.
"""

from __future__ import annotations

from collections.abc import Iterator

from farwrite_bench.report.parts import Row
from farwrite_experiments.capacity.costs import RDMA, Costs
from farwrite_experiments.capacity.job import Job, Site, stages
from farwrite_experiments.capacity.predict import Prediction, predict
from farwrite_experiments.cluster.link import Link
from farwrite_experiments.networks.network import INCEPTION_V3, LSTM, MNIST_MLP, VGG16, Network

GRPC = "grpc"
MICROSOFT, HUST_TCP, HUST_RDMA = (
    Site(Link(rate), cores, accelerated=True, name=name)
    for name, rate, cores in (
        ("8 servers, 28 cores, Tesla P100, 100 Gbit/s InfiniBand", 100e9, 28),
        ("Xeon E5-2670, Tesla K20m, gigabit Ethernet", 1e9, 8),
        ("Xeon E5-2670, Tesla K20m, ConnectX-3", 40e9, 8),
    )
)
"""The clusters."""
BATCH = 32
UNKNOWN = (
    ("VGG-16 on 4 nodes beside gRPC", "2.43x", "batch, and the computation's time on a K40m"),
    ("VGG-16 on 16 GPUs beside one", "13.8x", "batch, and the computation's time on a K40m"),
    ("AlexNet, images a second beside gRPC", "+89 %", "the computation's time on a K80"),
    ("GoogLeNet, images a second beside gRPC", "+15 %", "its variables and their times on a K80"),
    ("Inception-v4, images a second beside gRPC", "+144 %", "its variables and times on a K80"),
    ("ResNet-152, images a second beside gRPC", "3x", "its variables and times on a K80"),
)
"""Published figures that nothing can predict, and the condition that is missing."""
SPEED_UPS = ((VGG16, 5.2, 4.3), (LSTM, 7.0, 5.0), (INCEPTION_V3, 7.0, 7.9))
"""Of 8 servers beside one, where the last two are "more than", and beside a purely local run."""
STEPS = 100_000
HUST_SECONDS = (
    (HUST_RDMA, RDMA, (495.0, 246.5, 146.9)),
    (HUST_TCP, GRPC, (1265.2, 631.6, 389.0, 377.1)),
)
"""Seconds of 100,000 asynchronous steps of all workers together, with 1 worker and more. The fourth
figure over RDMA is probably a typing error, and left out."""


def rows(costs: Costs) -> Iterator[Row]:
    """Predict every published figure, and name those that cannot be predicted."""
    for network, beside_one, beside_local in SPEED_UPS:
        yield from _speed_ups(costs, network, beside_one, beside_local)
    for cluster, key, seconds in HUST_SECONDS:
        for workers, published in enumerate(seconds, 1):
            job = Job(stages(MNIST_MLP.layers, 0.0), workers, 1, sync=False)
            step = predict(job, cluster, costs, costs.transport(key)).step_s
            yield _row(
                f"MNIST, {workers} workers, {STEPS} steps, {key}",
                cluster,
                "no time of the computation is known, so it counts as none",
                published,
                [STEPS * step / workers],
                "s",
            )
    for what, text, missing in UNKNOWN:
        yield {"what": what, "published": text, "missing": missing}


def _speed_ups(
    costs: Costs, network: Network, beside_one: float, beside_local: float
) -> Iterator[Row]:
    """Predict how much faster 8 servers are, for the two limits of the computation's time."""
    found: list[tuple[float, float]] = []
    for samples in (1, BATCH):
        compute = samples * network.compute_ms / 1e3
        eight, one = (_on_servers(costs, network, compute, count) for count in (8, 1))
        found.append((8 * one.step_s / eight.step_s, 8 * eight.local_s / eight.step_s))
    assumption = (
        "the paper gives the computation's time of one sample: of a batch of 32 it is between that"
        " and 32 times as much"
    )
    for number, (what, published) in enumerate(
        (("one server", beside_one), ("a local run", beside_local))
    ):
        values = [each[number] for each in found]
        name = f"{network.name}, 8 servers beside {what}"
        yield _row(name, MICROSOFT, assumption, published, values, "x")


def _on_servers(costs: Costs, network: Network, compute: float, count: int) -> Prediction:
    job = Job(stages(network.layers, compute), count, count)
    return predict(job, MICROSOFT, costs, costs.transport(RDMA))


def _row(
    what: str, cluster: Site, assumption: str, published: float, predicted: list[float], unit: str
) -> Row:
    low, high = min(predicted), max(predicted)
    outside = low - published if published < low else min(high - published, 0.0)
    return {
        "what": what,
        "cluster": cluster.name,
        "assumption": assumption,
        "published": published,
        "predicted": [round(low, 4), round(high, 4)],
        "prediction_error": round(outside / published, 4),
        "unit": unit,
    }
