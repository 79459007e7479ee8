"""Trains with the box's Keras callback: box_callback.py ENDPOINT keras|tf_keras.

The model is w * x + b with w = b = 0, which `fit` sets to the shared weights. The loss is the
answer itself and x = 1, so that each step takes the learning rate from w and b.
"""

import importlib
import json
import sys

import numpy as np

import farwrite as fw
import farwrite.box.training.keras as adapter
from farwrite.box.training import Termination
from farwrite.box.training.keras import SEASGDCallback, read_model

endpoint, package = sys.argv[1:]
keras = importlib.import_module(package)


def make_model():
    one = keras.layers.Dense(1, kernel_initializer="zeros")
    model = keras.Sequential([keras.layers.Input((1,)), one, keras.layers.Dropout(0.0)])
    model.compile(keras.optimizers.SGD(1.0), lambda wanted, answer: answer)
    return model


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)


def trained(name, model, *before, size=1, **options):
    """Fit four samples; return the version of the shared weights and whether all are finite."""
    model.compile(keras.optimizers.SGD(0.125), "mse", **options)
    callbacks = [*before, SEASGDCallback(box, name, 0.5)]
    model.fit(inputs * size, inputs, batch_size=1, verbose=0, callbacks=callbacks)
    shared = box.attach(name)
    return [shared.version, bool(np.isfinite(shared.read()).all())]


def half():
    """Train a bfloat16 model; return as well whether another one reads its shared weights."""
    models = []
    for value in (1, 2):
        start = keras.initializers.Constant(value)
        dense = keras.layers.Dense(1, kernel_initializer=start, dtype="bfloat16")
        models.append(keras.Sequential([keras.layers.Input((1,)), dense]))
    made = trained("bfloat16", models[0])
    read_model(box, "bfloat16", models[1])
    shared = box.attach("bfloat16").read()
    return [*made, np.allclose(weights(models[1]), shared, rtol=2**-7)]


def weights(model):
    return [float(np.array(weight).item()) for weight in model.trainable_variables]


class CountedCopies:
    """Counts how often the adapter copies the weights of the model."""

    def __init__(self):
        self.count = 0
        self.copy = adapter._values_of

    def __call__(self, model):
        self.count += 1
        return self.copy(model)


inputs = np.ones((4, 1), np.float32)
with fw.box.connect(endpoint) as box, Termination(box, f"{package} steps", 1, 3) as termination:
    model = make_model()
    first = SEASGDCallback(box, package, 0.5, takeover=True)
    model.fit(inputs, inputs, batch_size=4, verbose=0, callbacks=[first])
    after_one_step = weights(model)
    callback = SEASGDCallback(box, package, 0.5, termination=termination, takeover=True)
    history = model.fit(inputs, inputs, batch_size=4, epochs=50, verbose=0, callbacks=[callback])
    shared = make_model()
    version = read_model(box, package, shared)

    adapter._values_of = copies = CountedCopies()
    alone = make_model()
    seldom = SEASGDCallback(box, f"{package} seldom", 0.5, period=3)
    for _ in range(2):  # the second goes on from the first one's weights
        alone.fit(inputs, inputs, batch_size=1, verbose=0, callbacks=[seldom])
    made = copies.count
    wider = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(2)])
    try:
        read_model(box, package, wider)
        refused = ""
    except fw.InvalidArgument as error:
        refused = str(error)
    dense = keras.layers.Dense
    given = [keras.layers.Input((1,)), dense(1)]
    nan = keras.callbacks.TerminateOnNaN()
    later = {
        "sequential": trained("sequential", keras.Sequential([dense(1)])),
        "subclassed": trained("subclassed", Subclassed()),
        "steps": trained("steps", keras.Sequential(given), steps_per_execution=4),
        "nan": trained("nan", keras.Sequential(given), nan, size=np.nan),
        "bfloat16": half(),
    }
print(
    json.dumps(
        {
            "after_one_step": after_one_step,
            "epochs": len(history.epoch),
            "shared": weights(shared),
            "version": version,
            "copies": made,
            "refused": refused,
            "later": later,
        }
    )
)
