"""Elastic averaging of a PyTorch module.

The package ``torch`` must be installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from farwrite.box.element import BFLOAT16
from farwrite.box.training.seasgd import SEASGD
from farwrite.box.training.shapes import Array, Nonfinite
from farwrite.box.training.weights import read_weights, shared_names
from farwrite.errors import InvalidArgument
from farwrite.lifetime.closing import Closing
from farwrite.optional import import_optional

if TYPE_CHECKING:
    from farwrite.box import Client

__all__ = ["ModuleSEASGD", "read_module"]

torch: Any = import_optional("torch", "farwrite.box.training.torch", "pip install torch")


def read_module(client: Client, name: str, module: Any, timeout: float | None = 30.0) -> int:
    """Set a module's parameters to the shared weights, and return their version.

    They are the parameters of the names that the workers share (see `ModuleSEASGD`), frozen here or
    not. Others, such as those of layers that are frozen in the workers, stay as they are.

    The arguments and the errors are those of `farwrite.box.training.read_weights`.
    """
    parameters = dict(module.named_parameters())
    names = shared_names(client, name, timeout).intersection(parameters)
    if names:  # otherwise the error names what differs
        parameters = {name: one for name, one in parameters.items() if name in names}
    types = _types_of("read_module", parameters)
    values = _values_of(parameters)
    version = read_weights(client, name, values, timeout, types=types)
    _assign(parameters, values)
    return version


class ModuleSEASGD(Closing):
    """Exchanges the parameters of a module with the box, as `SEASGD` does.

    The parameters are those that the optimizer updates, of float64, float32, float16 or bfloat16:
    frozen ones, without `requires_grad` when the object is created, are left out.
    Those in the memory of the CPU are changed where they are. Those of bfloat16 or in the memory of
    a GPU are copied to the CPU and back. Between two exchanges no parameter is touched.

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
    moving_rate, period, timeout, takeover, nonfinite
        As in `SEASGD`.

    Raises
    ------
    InvalidArgument
        If the optimizer updates a parameter of another module or of another dtype, and for the
        reasons of `SEASGD`.
    AlreadyExists, DeadlineExceeded
        As `SEASGD`.

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
        takeover: bool = False,
        nonfinite: Nonfinite = "refuse",
    ) -> None:
        updated = {
            id(parameter) for group in optimizer.param_groups for parameter in group["params"]
        }
        # In the module's order, which is the same in every worker.
        given = {name: one for name, one in module.named_parameters() if id(one) in updated}
        # The optimizer leaves the others as they are.
        self._parameters = {name: one for name, one in given.items() if one.requires_grad}
        if len(given) != len(updated):
            raise InvalidArgument(
                f"ModuleSEASGD: the optimizer updates {len(updated)} parameters and"
                f" {len(given)} of them are the module's; give the module that the"
                " optimizer trains"
            )
        types = _types_of("ModuleSEASGD", self._parameters)
        values = _values_of(self._parameters)
        self._seasgd = SEASGD(
            client, name, values, moving_rate,
            period=period, timeout=timeout, takeover=takeover, types=types, nonfinite=nonfinite,
        )  # fmt: skip
        _assign(self._parameters, values)

    def step(self) -> None:
        """Exchange with the shared weights if it is time. Call it after ``optimizer.step()``.

        Raises
        ------
        Error
            As `SEASGD.step`.
        """
        if not self._seasgd.due:
            return self._seasgd.step()
        values = _values_of(self._parameters)
        self._seasgd.step(values)
        _assign(self._parameters, values)

    def read(self) -> int:
        """Set the parameters to one version of the shared weights, and return that version."""
        values = _values_of(self._parameters)
        version = self._seasgd.read(values)
        _assign(self._parameters, values)
        return version

    def _facts(self) -> str:
        return self._seasgd._facts()

    def _state(self) -> str:
        return self._seasgd._state()

    def close(self, timeout: float | None = 30.0) -> None:
        """Wait up to `timeout` seconds for the last exchange, and detach."""
        self._seasgd.close(timeout)


_TYPES = {
    torch.float64: "<f8",
    torch.float32: "<f4",
    torch.float16: "<f2",
    torch.bfloat16: BFLOAT16,
}


def _types_of(operation: str, parameters: dict[str, Any]) -> list[str]:
    for name, one in parameters.items():
        if one.dtype not in _TYPES:
            raise InvalidArgument(
                f"{operation}: the parameter '{name}' is {one.dtype}; convert it to float64,"
                " float32, float16 or bfloat16, or keep it out of what is trained"
            )
    return [_TYPES[one.dtype] for one in parameters.values()]


def _values_of(parameters: dict[str, Any]) -> dict[str, Array]:
    # On the CPU these are views, so that an exchange changes the parameters in place. NumPy has no
    # bfloat16 of its own; float32 holds it exactly.
    values = {}
    for name, one in parameters.items():
        given = one.detach().to("cpu")
        values[name] = (given.float() if one.dtype == torch.bfloat16 else given).numpy()
    return values


def _assign(parameters: dict[str, Any], values: dict[str, Array]) -> None:
    with torch.no_grad():
        for name, parameter in parameters.items():
            given = torch.from_numpy(values[name])
            if given.data_ptr() != parameter.data_ptr():
                parameter.copy_(given)


def __dir__() -> list[str]:
    """List the interface alone."""
    return sorted(__all__)
