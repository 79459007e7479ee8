"""Shapes: the tensors of a model, and how they lie in one flat segment."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, SupportsFloat, cast, get_args

import numpy as np
from numpy.typing import NDArray

from farwrite.arguments import choice, number, shown
from farwrite.box.element import BFLOAT16, type_name
from farwrite.errors import InvalidArgument
from farwrite.memory.description import dtype_to_text
from farwrite.memory.payload import SupportsDLPack, as_array, check_unmasked

Array = NDArray[Any]
Arrays = Sequence[Array] | Mapping[str, Array]
"""The tensors of a model: in an order that all workers have, or by names."""
Nonfinite = Literal["refuse", "skip"]
"""What to do with a step whose weights or gradients have NaN or infinity."""
Flat = NDArray[Any]
"""All tensors one after the other, of the segment's dtype."""

VERSION = 1
"""Of the description of a segment of weights."""
_FLOATS = ("<f2", "<f4", "<f8", BFLOAT16)

# Name, element type as farwrite.memory.description, shape.
_Tensor = tuple[str, str, tuple[int, ...]]


class Shapes:
    """The names, shapes and dtypes of a model's tensors, and where each starts in the flat segment.

    The segment's dtype holds every tensor exactly: float64 if there is a float64 tensor, otherwise
    float32.

    Parameters
    ----------
    operation : str
        What error sentences name.
    arrays : sequence or dict of ndarray
        Arrays of float64, float32, float16 or bfloat16. Only what they are is kept.
    types : sequence of str, optional
        The element types of the model's tensors, if `arrays` are converted copies of them.

    Raises
    ------
    InvalidArgument
        If `arrays` holds something else, or no element.
    """

    def __init__(self, operation: str, arrays: Arrays, types: Sequence[str] | None = None) -> None:
        _check_is_kept(operation, arrays)
        found = []
        for label, name, array in _walk(arrays):
            text = _text_of(array)
            if text not in _FLOATS:
                kind = getattr(array, "dtype", type(array).__name__)
                raise InvalidArgument(
                    f"{operation}: {label} is {kind}; give NumPy arrays of float64, float32,"
                    " float16 or bfloat16, and leave the others out"
                )
            check_unmasked(operation, array)
            found.append((name, text, np.shape(array)))
        self._texts = [text for _, text, _ in found]
        own = self._texts if types is None else _checked_types(operation, types, len(found))
        self._tensors: list[_Tensor] = [
            (name, text, shape) for (name, _, shape), text in zip(found, own, strict=True)
        ]
        sizes = [array.size for _, _, array in _walk(arrays)]
        self.size = sum(sizes)
        if self.size == 0:
            raise InvalidArgument(
                f"{operation}: the arrays hold no element; give the weights of the model"
            )
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if "<f8" in self._texts else np.float32)
        ends = np.cumsum(sizes).tolist()
        self._ranges = list(zip([0, *ends[:-1]], ends, strict=True))

    def check(self, operation: str, arrays: Arrays, writable: bool = False) -> None:
        """Check that `arrays` have these names, shapes and dtypes.

        Raises
        ------
        InvalidArgument
            If they have not, or if one is read-only and `writable` is set.
        """
        _check_is_kept(operation, arrays)
        if len(arrays) != len(self._tensors):
            raise InvalidArgument(
                f"{operation}: there are {len(arrays)} arrays instead of {len(self._tensors)}; give"
                " as many as to the constructor, in the same order"
            )
        for (label, given, array), (name, _, shape), text in zip(
            _walk(arrays), self._tensors, self._texts, strict=True
        ):
            if given != name:
                raise InvalidArgument(
                    f"{operation}: {label} is where the constructor had '{name}'; give the names"
                    " and the order of the constructor"
                )
            if _text_of(array) != text:
                kind = getattr(array, "dtype", type(array).__name__)
                raise InvalidArgument(
                    f"{operation}: {label} is {kind} instead of {type_name(text)}; give NumPy"
                    " arrays of the dtypes of the constructor"
                )
            check_unmasked(operation, array)
            if array.shape != shape:
                raise InvalidArgument(
                    f"{operation}: {label} has shape {array.shape} instead of {shape}; give"
                    " the shapes and the order of the constructor"
                )
            if writable and not array.flags.writeable:
                raise InvalidArgument(
                    f"{operation}: {label} is read-only; give arrays that can be changed"
                )

    def factor(
        self, operation: str, name: str, value: SupportsFloat, most: float = math.inf
    ) -> float:
        """Check a factor of the segment's elements: above 0, up to `most`, and so in their dtype.

        Raises
        ------
        InvalidArgument
            If it is out of range, or the dtype has it as 0 or infinity.
        """
        given = number(value)
        if math.isnan(given):
            raise InvalidArgument(
                f"{operation}: {name} {shown(value)} is not a number of a float's range; give one"
                " above 0"
            )
        with np.errstate(over="ignore", under="ignore"):
            held = float(self.dtype.type(given))
        if not (0 < given <= most and 0 < held < math.inf):
            limit = "" if most == math.inf else f" and up to {most:g}"
            raise InvalidArgument(
                f"{operation}: {name} {shown(value)} is out of range; give a number above 0{limit}"
                f" that {self.dtype} can hold"
            )
        return given

    # --- What other processes are told of the model.

    def description(self) -> str:
        """Write names, dtypes and shapes as JSON, for the description of a segment."""
        return json.dumps({"weights": VERSION, "tensors": self._tensors}, separators=(",", ":"))

    def check_same(self, operation: str, name: str, description: bytes | str, whose: str) -> None:
        """Check that `description` is that of this model.

        Parameters
        ----------
        operation : str
            What error sentences name.
        name : str
            The segment or the group.
        description : bytes or str
            Of another process, as untrusted input.
        whose : str
            Who has the other model, for the message: "the first worker's".

        Raises
        ------
        InvalidArgument
            If it is that of another model, or of none. The message names the first tensor that
            differs.
        """
        theirs = _parse(description)
        if theirs is None:
            raise InvalidArgument(
                f"{operation}: '{name}' holds no weights of a training; choose another name"
            )
        if theirs != self._tensors:
            raise InvalidArgument(
                f"{operation}: {self._difference(theirs, whose)}; give the same model to every"
                f" process, or choose another name than '{name}'"
            )

    def _difference(self, theirs: list[_Tensor], whose: str) -> str:
        for mine, other in zip(self._tensors, theirs, strict=False):
            if mine[0] != other[0]:
                return f"the tensor '{mine[0]}' is where {whose} model has '{other[0]}'"
            if mine != other:
                return (
                    f"the tensor '{mine[0]}' has shape {mine[2]} and dtype {type_name(mine[1])},"
                    f" and in {whose} model it has {other[2]} and {type_name(other[1])}"
                )
        if len(self._tensors) < len(theirs):
            return f"the model lacks the tensor '{theirs[len(self._tensors)][0]}' of {whose} model"
        return f"{whose} model lacks the tensor '{self._tensors[len(theirs)][0]}'"

    # --- The flat segment.

    def views(self, flat: Flat) -> list[Flat]:
        """Return for each array the part of `flat` that belongs to it, in the array's shape."""
        return [
            flat[start:end].reshape(shape)
            for (start, end), (_, _, shape) in zip(self._ranges, self._tensors, strict=True)
        ]

    def gather(self, arrays: Arrays, flat: Flat) -> None:
        """Copy `arrays` into `flat`."""
        for array, view in zip(values_of(arrays), self.views(flat), strict=True):
            np.copyto(view, array, casting="same_kind")

    def scatter(self, flat: Flat, arrays: Arrays) -> None:
        """Copy `flat` into `arrays`."""
        for array, view in zip(values_of(arrays), self.views(flat), strict=True):
            np.copyto(array, view, casting="same_kind")


def _checked_types(operation: str, types: Sequence[str], count: int) -> Sequence[str]:
    given = isinstance(types, Sequence) and not isinstance(types, (str, bytes))
    if not given or len(types) != count or not all(isinstance(text, str) for text in types):
        raise InvalidArgument(
            f"{operation}: types {shown(types)} are not the element types of {count} arrays; give"
            " a list of as many texts"
        )
    return types


def names_of(description: bytes | str) -> list[str]:
    """Return the names of the tensors that a `Shapes.description` has; none if it is not one."""
    return [name for name, _, _ in _parse(description) or ()]


def _parse(description: bytes | str) -> list[_Tensor] | None:
    try:
        fields = json.loads(description)
        if fields["weights"] != VERSION:
            return None
        return [
            (str(name), str(text), tuple(int(length) for length in shape))
            for name, text, shape in fields["tensors"]
        ]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def checked_choice(operation: str, nonfinite: str) -> Nonfinite:
    """Check what a caller wants done with NaN and infinity.

    Raises
    ------
    InvalidArgument
        If `nonfinite` is neither "refuse" nor "skip".
    """
    return cast("Nonfinite", choice(operation, "nonfinite", nonfinite, get_args(Nonfinite)))


def finite(arrays: Iterable[Array]) -> bool:
    """Whether the arrays have neither NaN nor infinity."""
    with np.errstate(invalid="ignore", over="ignore"):
        # A sum needs no memory. It is finite only if all elements are, and seldom else.
        return all(
            math.isfinite(float(array.sum())) or bool(np.isfinite(array).all()) for array in arrays
        )


def values_of(arrays: Arrays) -> list[Array]:
    """Return the arrays without their names."""
    return list(arrays.values()) if isinstance(arrays, Mapping) else list(arrays)


def as_numpy_arrays(operation: str, arrays: Arrays) -> Arrays:
    """View other libraries' tensors in the CPU's memory as NumPy arrays of the same memory.

    Raises
    ------
    InvalidArgument
        As `farwrite.memory.payload.as_array`.
    """
    _check_is_kept(operation, arrays)

    def view(label: str, given: object) -> Any:
        other = not isinstance(given, np.ndarray) and isinstance(given, SupportsDLPack)
        return as_array(f"{operation}: {label}", given) if other else given

    if isinstance(arrays, Mapping):
        return {name: view(f"'{name}'", given) for name, given in arrays.items()}
    return [view(f"array {number}", given) for number, given in enumerate(arrays)]


def _check_is_kept(operation: str, arrays: object) -> None:
    # A generator gives its arrays only once; one array is a collection of its rows.
    if not isinstance(arrays, Collection) or hasattr(arrays, "dtype"):
        raise InvalidArgument(
            f"{operation}: the arrays are {type(arrays).__name__}; give a list or a dict of arrays"
        )


def _walk(arrays: Arrays) -> Iterator[tuple[str, str, Array]]:
    if isinstance(arrays, Mapping):
        for name, array in arrays.items():
            yield f"'{name}'", str(name), array
    else:
        for number, array in enumerate(arrays):
            yield f"array {number}", str(number), array


def _text_of(array: object) -> str:
    if not isinstance(array, np.ndarray):
        return ""
    try:
        return dtype_to_text(array.dtype)
    except InvalidArgument:
        return ""
