"""The server's arithmetic on arrays of this process."""

from __future__ import annotations

from typing import SupportsFloat

from farwrite import _farwrite
from farwrite.box.element import Layout, destination_of, elements_of, factor_of, type_name
from farwrite.errors import InvalidArgument


def add_scaled(destination: object, source: object, scale: SupportsFloat = 1.0) -> None:
    """Add ``scale * source`` to `destination`, in this thread, without the GIL.

    The arithmetic is the server's: 16-bit floats are added in 32 bits and rounded once.

    Parameters
    ----------
    destination, source : array, buffer or DLPack exporter
        Of one shape and dtype: float64, float32, float16, bfloat16, int64 or int32. On the CPU and
        C-contiguous. They must not overlap.
    scale : int or float
        For integers a value of their dtype, which is used exactly.

    Raises
    ------
    InvalidArgument
        If the arrays differ, the dtype has no arithmetic, `scale` is no value of a dtype of
        integers, or `destination` is read-only.
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
    factor = factor_of("add_scaled", "scale", scale, layout, "the arrays have")
    _farwrite.add_scaled(layout.element, to.data, by.data, factor)
