"""The networks have exactly the variables, sizes and counts of the main paper's table (X14)."""

from __future__ import annotations

import importlib
from contextlib import nullcontext
from typing import Any

import pytest

from farwrite_experiments.networks.network import MNIST_MLP, NETWORKS, SIX
from farwrite_experiments.networks.outline import Value, Variable
from farwrite_experiments.networks.real import RealNetwork, loss, synthetic

TABLE = {
    "alexnet": (46_247_882, 176.42, 16, 7.61),
    "inception_v3": (24_353_332, 92.90, 196, 68.32),
    "vgg16": (134_301_514, 512.32, 32, 30.92),
    "lstm": (9_417_704, 35.93, 14, 33.33),
    "gru": (7_319_528, 27.92, 11, 30.44),
    "fcn5": (53_600_266, 204.47, 10, 4.88),
}
"""Parameters, their megabytes (2^20 bytes), variables, and milliseconds of one sample."""
MULTIPLICATIONS = {
    "alexnet": 0.73e9,
    "inception_v3": 5.72e9,
    "vgg16": 15.47e9,
    "lstm": 80 * 8 * 1024**2 + 1024 * 1000,
    "gru": 80 * 6 * 1024**2 + 1024 * 1000,
    "fcn5": 53_600_266 - 4 * 4096 - 10,
}
"""What is known of one sample's forward pass."""


@pytest.mark.parametrize("network", SIX, ids=lambda network: network.key)
def test_a_network_has_the_papers_figures(network: Any) -> None:
    parameters, megabytes, variables, milliseconds = TABLE[network.key]
    made = network.variables
    assert sum(each.elements for each in made) == parameters
    assert round(network.bytes / 2**20, 2) == megabytes
    assert len(made) == len({each.name for each in made}) == variables
    assert network.compute_ms == milliseconds
    operations = sum(layer.operations for layer in network.layers)
    assert operations == pytest.approx(MULTIPLICATIONS[network.key], rel=0.01)


def test_the_classifiers_have_the_papers_classes() -> None:
    for network in NETWORKS.values():
        assert network.layers[-1].output[-1] == network.classes
        assert network.classes == (1000 if network.key in ("lstm", "gru") else 10)


def test_the_mnist_network_has_one_hidden_layer_of_100() -> None:
    shapes = [variable.shape for variable in MNIST_MLP.variables]
    assert shapes == [(784, 100), (100,), (100, 10), (10,)]


def test_inception_has_convolutions_with_normalization_and_two_classifiers() -> None:
    names = [variable.name.rpartition("/")[2] for variable in NETWORKS["inception_v3"].variables]
    assert (names.count("w"), names.count("beta"), names.count("b")) == (98, 96, 2)


@pytest.mark.parametrize("key", ["fcn5", "gru", "lstm", "mnist_mlp"])
def test_a_graph_has_the_variables_and_the_output_of_its_outline(key: str) -> None:
    tf = pytest.importorskip("tensorflow")
    _check_graph(tf, NETWORKS[key])


@pytest.mark.slow
@pytest.mark.parametrize("key", ["alexnet", "inception_v3", "vgg16"])
def test_a_convolutional_graph_has_the_variables_of_its_outline(key: str) -> None:
    _check_graph(importlib.import_module("tensorflow"), NETWORKS[key])


def _check_graph(tf: Any, network: Any) -> None:
    """Build the graph, and check its shapes and that every variable has a gradient."""
    read: dict[Variable, Any] = {}
    with tf.Graph().as_default():

        def value(variable: Variable) -> Any:
            if variable not in read:
                read[variable] = tf.zeros(variable.shape)
            return read[variable]

        built = RealNetwork(tf, value, lambda _: nullcontext())
        samples, labels = synthetic(tf, network.sample, 2, network.classes, 0)
        outputs = network.add_to(built, Value(network.sample, samples), network.classes)
        assert list(read) == network.variables
        for output in outputs:
            assert output.tensor.shape.num_elements() == 2 * network.classes
        gradients = tf.gradients(loss(tf, outputs, labels), list(read.values()))
        for variable, gradient in zip(read, gradients, strict=True):
            assert tuple(gradient.shape) == variable.shape
