"""Elastic averaging of a PyTorch module.

The package ``torch`` must be installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from farwrite.box.training.seasgd import SEASGD
from farwrite.box.training.shapes import Array
from farwrite.closing import Closing
from farwrite.errors import InvalidArgument

if TYPE_CHECKING:
    from farwrite.box import Client

torch: Any = importlib.import_module("torch")


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
        values = self._values()
        self._seasgd = SEASGD(client, name, values, moving_rate, period=period, timeout=timeout)
        self._assign(values)

    def step(self) -> None:
        """Exchange with the shared weights. Call it after ``optimizer.step()``.

        Raises
        ------
        Error
            As `SEASGD.step`.
        """
        values = self._values()
        self._seasgd.step(values)
        self._assign(values)

    def read(self) -> int:
        """Set the parameters to one version of the shared weights, and return that version."""
        values = self._values()
        version = self._seasgd.read(values)
        self._assign(values)
        return version

    def close(self, timeout: float | None = 30.0) -> None:
        """Wait up to `timeout` seconds for the last exchange, and detach."""
        self._seasgd.close(timeout)

    def _values(self) -> list[Array]:
        return [one.detach().to("cpu", torch.float32).numpy() for one in self._parameters]

    def _assign(self, values: list[Array]) -> None:
        with torch.no_grad():
            for parameter, value in zip(self._parameters, values, strict=True):
                given = torch.from_numpy(value)
                if given.data_ptr() != parameter.data_ptr():
                    parameter.copy_(given)
