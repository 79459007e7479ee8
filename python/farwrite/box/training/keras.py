"""A Keras callback that trains a model by elastic averaging.

The package ``keras`` must be installed. The callback also serves models of ``tf_keras``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from farwrite.box.training.seasgd import SEASGD
from farwrite.box.training.shapes import Array, Nonfinite, checked_choice, finite
from farwrite.box.training.termination import Termination
from farwrite.box.training.weights import read_weights
from farwrite.lifetime.handle import Handle
from farwrite.optional import import_optional

if TYPE_CHECKING:
    from farwrite.box import Client

__all__ = ["SEASGDCallback", "read_model"]

# Keras 3. Models of tf_keras accept its callbacks.
keras: Any = import_optional(
    "keras", "farwrite.box.training.keras", "pip install keras, and one of its backends"
)


def read_model(client: Client, name: str, model: Any, timeout: float | None = 30.0) -> int:
    """Set a model's trainable weights to the shared ones, and return their version.

    The model must be built, with the layers trainable that are trainable in the workers.

    The arguments and the errors are those of `farwrite.box.training.read_weights`.
    """
    values = _values_of(model)
    version = read_weights(client, name, values, timeout)
    _assign(model, values)
    return version


class SEASGDCallback(Handle, keras.callbacks.Callback):  # type: ignore[misc]
    """Exchanges a model's trainable weights with the box after each batch, as `SEASGD` does.

    `fit` starts from the shared weights: those of the worker that trains first. It ends with the
    worker's own; see `read_model` for the shared ones. The weights that are not trained, for
    example statistics of batch normalization, stay the worker's own. Between two exchanges the
    model's weights are not touched.

    A model that Keras builds from its first batch, because it has no ``Input`` or is subclassed,
    joins after that batch: a later worker takes the shared weights then. Build it before `fit` to
    begin with them.

    With ``steps_per_execution=n``, Keras calls the callback after n batches: it then exchanges, and
    `termination` counts 1, after each n batches.

    To the other workers, a weight's name is its place and the last part of its own name:
    "0/kernel".

    Parameters
    ----------
    client : Client
        The worker's connection to the box.
    name : str
        The segment of the shared weights.
    moving_rate, period, timeout, takeover
        As in `SEASGD`. The second `fit` with one callback goes on from the shared weights also
        without `takeover`.
    nonfinite : {"refuse", "skip"}
        As in `SEASGD`. With "refuse", an exchange of NaN ends `fit` with InvalidArgument, unless a
        callback that comes before this one, such as ``TerminateOnNaN``, has ended it: the shared
        weights are left as they are then.
    termination : Termination, optional
        Ends `fit` when its rule says so. The callback does not close it.
    worker : int
        This worker's number, for `termination`.

    Examples
    --------
    >>> model.fit(x, y, callbacks=[SEASGDCallback(client, "digits")])  # doctest: +SKIP
    """

    def __init__(
        self,
        client: Client,
        name: str,
        moving_rate: float = 0.2,
        *,
        period: int = 1,
        timeout: float | None = 30.0,
        termination: Termination | None = None,
        worker: int = 0,
        takeover: bool = False,
        nonfinite: Nonfinite = "refuse",
    ) -> None:
        super().__init__()
        self._client = client
        self._name = name
        self._options: dict[str, Any] = {
            "moving_rate": moving_rate,
            "period": period,
            "timeout": timeout,
            "takeover": takeover,
            "nonfinite": checked_choice("SEASGDCallback", nonfinite),
        }
        self._termination = termination
        self._worker = worker
        self._seasgd: SEASGD | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Attach the shared weights and take them over, unless the first batch builds the model."""
        self.close()  # a fit that failed did not end
        if self.model.built:
            self._begin(_values_of(self.model))

    def _begin(self, values: dict[str, Array]) -> None:
        self._seasgd = SEASGD(self._client, self._name, values, **self._options)
        self._options["takeover"] = True  # of what this callback has begun
        _assign(self.model, values)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Exchange with the shared weights; stop `fit` when the termination says so."""
        if self._seasgd is None:
            self._begin(_values_of(self.model))
        elif not self._seasgd.due:
            self._seasgd.step()
        else:
            values = _values_of(self.model)
            if not self.model.stop_training or finite(values.values()):
                self._seasgd.step(values)
                _assign(self.model, values)
        if self._termination is not None and self._termination.advance(self._worker):
            self.model.stop_training = True

    def on_train_end(self, logs: Any = None) -> None:
        """Wait until the last exchange is applied, and detach."""
        self.close()

    def _facts(self) -> str:
        return f"of '{self._name}'"

    def close(self) -> None:
        """Detach from the shared weights. `fit` does it when it ends; a second call is allowed."""
        seasgd, self._seasgd = self._seasgd, None
        if seasgd is not None:
            seasgd.close()

    # tf_keras asks each callback for these; Keras 3 does not.

    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False


def _values_of(model: Any) -> dict[str, Array]:
    # The first part of a weight's own name counts the models that the process has made.
    return {
        f"{number}/{weight.name.split('/')[-1].removesuffix(':0')}": np.array(weight)
        for number, weight in enumerate(model.trainable_variables)
    }


def _assign(model: Any, values: dict[str, Array]) -> None:
    for weight, value in zip(model.trainable_variables, values.values(), strict=True):
        weight.assign(value)


def __dir__() -> list[str]:
    """List the interface alone."""
    return sorted(__all__)
