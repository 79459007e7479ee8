"""PyTorch's tensors and dtypes, without an import of PyTorch."""

from __future__ import annotations

import sys
from typing import Any

from farwrite.errors import InvalidArgument


def torch_name(dtype: object) -> str:
    """Return the name of a dtype of PyTorch: "float32". It is empty for all else."""
    return str(dtype).removeprefix("torch.") if type(dtype).__module__ == "torch" else ""


def exporter(operation: str, payload: Any) -> tuple[Any, str]:
    """Return what exports the memory of `payload` by DLPack, and its element type's name.

    The name is empty where DLPack has it. A tensor that records gradients is exported as it is now.

    Raises
    ------
    InvalidArgument
        If `payload` is a tensor whose elements do not lie in its memory as they are.
    """
    name = torch_name(getattr(payload, "dtype", None))
    if not name or not hasattr(payload, "detach"):
        return payload, ""
    if "sparse" in str(payload.layout):
        raise InvalidArgument(f"{operation}: the tensor is sparse; give x.to_dense(), a copy")
    if payload.is_conj() or payload.is_neg():
        raise InvalidArgument(
            f"{operation}: the tensor is a view with conjugate or negative elements; give"
            " x.resolve_conj().resolve_neg(), a copy"
        )
    if name.startswith("float8_"):  # which have no code in every DLPack
        return payload.detach().view(sys.modules["torch"].uint8), name
    return payload.detach(), ""
