"""The server's arithmetic on arrays of this process."""

from __future__ import annotations

from typing import SupportsFloat

from farwrite import _farwrite
from farwrite.box.element import Layout, destination_of, elements_of, type_name
from farwrite.errors import InvalidArgument


def add_scaled(destination: object, source: object, scale: SupportsFloat = 1.0) -> None:
    """Add ``scale * source`` to `destination`, in this thread, without the GIL.

    The arithmetic is the server's: 16-bit floats are added in 32 bits and rounded once.

    Parameters
    ----------
    destination, source : array, buffer or DLPack exporter
        Of one shape and dtype: float64, float32, float16, bfloat16, int64 or int32. On the CPU and
        C-contiguous. They must not overlap.
    scale : float
        A whole number for integers.

    Raises
    ------
    InvalidArgument
        If the arrays differ, the dtype has no arithmetic, or `destination` is read-only.
    """
    to = destination_of("add_scaled", destination)
    by = elements_of("add_scaled", source)
    if to.on_gpu is not None:
        raise InvalidArgument(
            "add_scaled: the destination is on a GPU, and the CPU adds; add there with its library"
        )
    layout = Layout(to.text, to.shape)
    if not layout.same_as(by):
        raise InvalidArgument(
            f"add_scaled: the destination has shape {to.shape} and dtype {layout.name}, and the"
            f" source {by.shape} and {type_name(by.text)}; give two arrays of one kind"
        )
    if layout.element is _farwrite.BoxElement.BYTES:
        raise InvalidArgument(
            f"add_scaled: dtype {layout.name} has no arithmetic; use float64, float32, float16,"
            " bfloat16, int64 or int32"
        )
    factor = float(scale)
    if layout.text in ("<i4", "<i8") and not factor.is_integer():
        raise InvalidArgument(
            f"add_scaled: scale {factor} is not a whole number, and the arrays have dtype"
            f" {layout.name}; give a whole number"
        )
    _farwrite.add_scaled(layout.element, to.data, by.data, factor)
