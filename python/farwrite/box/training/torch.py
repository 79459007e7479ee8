"""Elastic averaging of a PyTorch module.

The package ``torch`` must be installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from farwrite.box.training.seasgd import SEASGD
from farwrite.box.training.shapes import Array
from farwrite.box.training.weights import read_weights
from farwrite.closing import Closing
from farwrite.errors import InvalidArgument

if TYPE_CHECKING:
    from farwrite.box import Client

__all__ = ["ModuleSEASGD", "read_module"]

torch: Any = importlib.import_module("torch")


def read_module(client: Client, name: str, module: Any, timeout: float | None = 30.0) -> int:
    """Set a module's parameters to the shared weights, and return their version.

    Parameters without `requires_grad` stay as they are: the workers' optimizers update the others.

    The arguments and the errors are those of `farwrite.box.training.read_weights`.
    """
    parameters = [one for one in module.parameters() if one.requires_grad]
    values = _values_of(parameters)
    version = read_weights(client, name, values, timeout)
    _assign(parameters, values)
    return version


class ModuleSEASGD(Closing):
    """Exchanges the parameters of a module with the box, as `SEASGD` does.

    The parameters are those that the optimizer updates. Parameters in the memory of the CPU, as
    float32, are changed where they are; others are copied to the CPU and back.

    A context manager. Use each object in one thread.

    Parameters
    ----------
    client : Client
        The worker's connection to the box.
    name : str
        The segment of the shared weights.
    module : torch.nn.Module
        The model. In a later worker its parameters are set to the shared weights.
    optimizer : torch.optim.Optimizer
        Updates parameters of `module`.
    moving_rate, period, timeout
        As in `SEASGD`.

    Raises
    ------
    InvalidArgument
        If the optimizer updates a parameter of another module, and for the reasons of `SEASGD`.

    Examples
    --------
    >>> sgd = ModuleSEASGD(client, "digits", module, optimizer)  # doctest: +SKIP
    >>> loss.backward()  # doctest: +SKIP
    >>> optimizer.step()  # doctest: +SKIP
    >>> sgd.step()  # doctest: +SKIP
    """

    def __init__(
        self,
        client: Client,
        name: str,
        module: Any,
        optimizer: Any,
        moving_rate: float = 0.2,
        *,
        period: int = 1,
        timeout: float | None = 30.0,
    ) -> None:
        updated = {
            id(parameter) for group in optimizer.param_groups for parameter in group["params"]
        }
        # In the module's order, which is the same in every worker.
        self._parameters = [one for one in module.parameters() if id(one) in updated]
        if len(self._parameters) != len(updated):
            raise InvalidArgument(
                f"ModuleSEASGD: the optimizer updates {len(updated)} parameters and"
                f" {len(self._parameters)} of them are the module's; give the module that the"
                " optimizer trains"
            )
        values = _values_of(self._parameters)
        self._seasgd = SEASGD(client, name, values, moving_rate, period=period, timeout=timeout)
        _assign(self._parameters, values)

    def step(self) -> None:
        """Exchange with the shared weights. Call it after ``optimizer.step()``.

        Raises
        ------
        Error
            As `SEASGD.step`.
        """
        values = _values_of(self._parameters)
        self._seasgd.step(values)
        _assign(self._parameters, values)

    def read(self) -> int:
        """Set the parameters to one version of the shared weights, and return that version."""
        values = _values_of(self._parameters)
        version = self._seasgd.read(values)
        _assign(self._parameters, values)
        return version

    def close(self, timeout: float | None = 30.0) -> None:
        """Wait up to `timeout` seconds for the last exchange, and detach."""
        self._seasgd.close(timeout)


def _values_of(parameters: list[Any]) -> list[Array]:
    # Of float32 parameters on the CPU these are views, so that a step changes them in place.
    return [one.detach().to("cpu", torch.float32).numpy() for one in parameters]


def _assign(parameters: list[Any], values: list[Array]) -> None:
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            given = torch.from_numpy(value)
            if given.data_ptr() != parameter.data_ptr():
                parameter.copy_(given)
