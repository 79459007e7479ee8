"""Shapes: how a list of arrays lies in one flat float32 segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farwrite.errors import InvalidArgument

Array = NDArray[Any]
Flat = NDArray[np.float32]


class Shapes:
    """The shapes of a list of arrays, and where each one starts in the flat segment.

    Parameters
    ----------
    operation : str
        What error sentences name.
    arrays : sequence of ndarray
        Arrays of floats. Only their shapes are kept.

    Raises
    ------
    InvalidArgument
        If `arrays` holds something else, or no element.
    """

    def __init__(self, operation: str, arrays: Sequence[Array]) -> None:
        self._shapes = [np.shape(array) for array in arrays]
        self.check(operation, arrays)
        sizes = [array.size for array in arrays]
        self.size = sum(sizes)
        if self.size == 0:
            raise InvalidArgument(
                f"{operation}: the arrays hold no element; give the weights of the model"
            )
        ends = np.cumsum(sizes).tolist()
        self._ranges = list(zip([0, *ends[:-1]], ends, strict=True))

    def check(self, operation: str, arrays: Sequence[Array], writable: bool = False) -> None:
        """Check that `arrays` are arrays of floats of these shapes.

        Raises
        ------
        InvalidArgument
            If they are not, or if one is read-only and `writable` is set.
        """
        if len(arrays) != len(self._shapes):
            raise InvalidArgument(
                f"{operation}: there are {len(arrays)} arrays instead of {len(self._shapes)}; give"
                " as many as to the constructor, in the same order"
            )
        for number, (array, shape) in enumerate(zip(arrays, self._shapes, strict=True)):
            if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
                kind = getattr(array, "dtype", type(array).__name__)
                raise InvalidArgument(
                    f"{operation}: array {number} is {kind}; give NumPy arrays of floats"
                )
            if array.shape != shape:
                raise InvalidArgument(
                    f"{operation}: array {number} has shape {array.shape} instead of {shape}; give"
                    " the shapes and the order of the constructor"
                )
            if writable and not array.flags.writeable:
                raise InvalidArgument(
                    f"{operation}: array {number} is read-only; give arrays that can be changed"
                )

    def views(self, flat: Flat) -> list[Flat]:
        """Return for each array the part of `flat` that belongs to it, in the array's shape."""
        return [
            flat[start:end].reshape(shape)
            for (start, end), shape in zip(self._ranges, self._shapes, strict=True)
        ]

    def gather(self, arrays: Sequence[Array], flat: Flat) -> None:
        """Copy `arrays` into `flat`."""
        for array, view in zip(arrays, self.views(flat), strict=True):
            np.copyto(view, array, casting="same_kind")

    def scatter(self, flat: Flat, arrays: Sequence[Array]) -> None:
        """Copy `flat` into `arrays`."""
        for array, view in zip(arrays, self.views(flat), strict=True):
            np.copyto(array, view, casting="same_kind")
