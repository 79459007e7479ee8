"""A trainer publishes its weights, and four readers always have the newest ones.

    pip install scikit-learn
    python examples/box/readers.py

The trainer fits a linear classifier of handwritten digits. After each epoch it publishes a version
of its weights. Each reader scores the versions it gets on the test images. A version is pinned
while a reader uses it, without a copy. A reader that is slower than the trainer skips versions.
"""

import digits
import numpy as np
from digits import TRAINING

import farwrite as fw

READERS = 4
EPOCHS = 60


def reader(number: int, endpoint: str, images: np.ndarray, labels: np.ndarray) -> None:
    """Score each version that is newer than the one before, until the last epoch's."""
    with fw.box.connect(endpoint) as box, box.subscribe("policy") as policy:
        box.event("readers").signal()
        scored = epoch = 0
        model = None
        right = 0.0
        while epoch < EPOCHS:
            with policy.latest(newer_than=model, timeout=120) as model:
                answers = (images @ model["weights"] + model["bias"]).argmax(axis=1)
                epoch = model.step or 0
            right = (answers == labels).mean()
            scored += 1
    print(f"reader {number}: scored {scored} versions; the last recognizes {right:.1%}")


def train(policy: fw.box.Publisher, images: np.ndarray, labels: np.ndarray) -> None:
    """Fit the classifier by gradient descent, and publish it after each epoch."""
    model = new_model()
    wanted = np.eye(10, dtype=np.float32)[labels]
    for epoch in range(1, EPOCHS + 1):
        for start in range(0, len(images), 50):
            batch = images[start : start + 50]
            logits = batch @ model["weights"] + model["bias"]
            chances = np.exp(logits - logits.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
            errors = (chances - wanted[start : start + 50]) / len(batch)
            model["weights"] -= 0.5 * batch.T @ errors
            model["bias"] -= 0.5 * errors.sum(axis=0)
        policy.publish(model, step=epoch)


def new_model() -> dict[str, np.ndarray]:
    return {
        "weights": np.zeros((64, 10), np.float32),
        "bias": np.zeros(10, np.float32),
    }


def main() -> None:
    images, labels = digits.load()
    with (
        fw.box.serve() as server,
        server.connect() as box,
        # Each reader may hold another version; one is the newest, and one is being filled.
        server.publisher("policy", like=new_model(), buffers=READERS + 2) as policy,
    ):
        test = (images[TRAINING:], labels[TRAINING:])
        readers = digits.start(reader, server.endpoint, [test] * READERS)
        box.event("readers").wait(READERS, timeout=120)
        train(policy, images[:TRAINING], labels[:TRAINING])
        digits.join(readers)
    print(f"the trainer published {EPOCHS} versions")


if __name__ == "__main__":
    main()
