"""A Keras callback that trains a model by elastic averaging.

The package ``keras`` must be installed. The callback also serves models of ``tf_keras``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from farwrite.box.training.seasgd import SEASGD
from farwrite.box.training.shapes import Array
from farwrite.box.training.termination import Termination

if TYPE_CHECKING:
    from farwrite.box import Client

keras: Any = importlib.import_module("keras")


class SEASGDCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Exchanges a model's trainable weights with the box after each batch, as `SEASGD` does.

    `fit` starts from the shared weights: those of the worker that trains first.

    Parameters
    ----------
    client : Client
        The worker's connection to the box.
    name : str
        The segment of the shared weights.
    moving_rate, period, timeout
        As in `SEASGD`.
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
    ) -> None:
        super().__init__()
        self._client = client
        self._name = name
        self._options: dict[str, Any] = {
            "moving_rate": moving_rate,
            "period": period,
            "timeout": timeout,
        }
        self._termination = termination
        self._worker = worker
        self._seasgd: SEASGD | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Attach the shared weights and take them over."""
        self.close()  # a fit that failed did not end
        values = self._values()
        self._seasgd = SEASGD(self._client, self._name, values, **self._options)
        self._assign(values)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Exchange with the shared weights; stop `fit` when the termination says so."""
        assert self._seasgd is not None
        values = self._values()
        self._seasgd.step(values)
        self._assign(values)
        if self._termination is not None and self._termination.advance(self._worker):
            self.model.stop_training = True

    def on_train_end(self, logs: Any = None) -> None:
        """Set the model to the shared weights, and detach."""
        assert self._seasgd is not None
        values = self._values()
        self._seasgd.read(values)
        self._assign(values)
        self.close()

    def close(self) -> None:
        """Detach from the shared weights. `fit` does it when it ends; a second call is allowed."""
        seasgd, self._seasgd = self._seasgd, None
        if seasgd is not None:
            seasgd.close()

    def _values(self) -> list[Array]:
        return [np.array(weight) for weight in self.model.trainable_variables]

    def _assign(self, values: list[Array]) -> None:
        for weight, value in zip(self.model.trainable_variables, values, strict=True):
            weight.assign(value)

    # tf_keras asks each callback for these; Keras 3 does not.

    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False
