"""Trains a Keras model of handwritten digits with four workers over the parameter box.

    pip install 'tensorflow-cpu==2.21.*' scikit-learn
    python examples/box/keras_digits.py

Each worker has a quarter of the images and a model of its own. The box keeps the workers together:
after each batch, a worker moves towards the shared weights, and the shared weights move towards
the worker. The program prints how many of the test images the shared weights recognize.
"""

import os

# The model is small: five processes need no GPU for it, and no messages about it.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import digits
import keras
import numpy as np
from digits import TRAINING

import farwrite as fw
from farwrite.box.training import Termination
from farwrite.box.training.keras import SEASGDCallback, read_model

WORKERS = 4
ITERATIONS = 250  # of each worker, on average


def make_model() -> keras.Model:
    model = keras.Sequential(
        [keras.Input((64,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(10)]
    )
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def worker(number: int, endpoint: str, images: np.ndarray, labels: np.ndarray) -> None:
    keras.utils.set_random_seed(number)
    model = make_model()
    with (
        fw.box.connect(endpoint) as box,
        Termination(box, "iterations", WORKERS, ITERATIONS, "average") as termination,
    ):
        callback = SEASGDCallback(
            box,
            "digits",
            termination=termination,
            worker=number,
            takeover=True,  # if the others have ended before this one begins
        )
        box.event("started").signal()
        box.event("started").wait(WORKERS, timeout=120)  # or the first would train alone
        # The termination ends it.
        model.fit(images, labels, epochs=10_000, verbose=0, callbacks=[callback])


def main() -> None:
    images, labels = digits.load()
    with fw.box.serve() as server, server.connect() as box:
        mine = [slice(number, TRAINING, WORKERS) for number in range(WORKERS)]
        parts = [(images[one], labels[one]) for one in mine]
        digits.join(digits.start(worker, server.endpoint, parts))
        model = make_model()
        version = read_model(box, "digits", model)
    answers = model.predict(images[TRAINING:], verbose=0).argmax(axis=1)
    print(f"{WORKERS} workers exchanged {version - 1} times")
    print(f"test accuracy: {(answers == labels[TRAINING:]).mean():.1%}")


if __name__ == "__main__":
    main()
