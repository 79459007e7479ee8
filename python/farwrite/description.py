"""How an array's shape and element type travel with the region it is published in.

The core knows bytes only; it carries a description with a published name. Farwrite's Python
package writes a JSON object into it::

    {"array": 1, "dtype": "<f4", "shape": [1024, 1024]}

``array`` is the version of this form. ``dtype`` is what ``.npy`` files hold in ``descr``: text, or
for structured types a list of fields. Types of the package ``ml_dtypes`` go by their name there:
``bfloat16``, ``float8_e4m3fn``. Elements lie in C order, without gaps.
"""

from __future__ import annotations

import importlib
import json
import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from farwrite.errors import InvalidArgument, ProtocolError

VERSION = 1
MAX_DIMENSIONS = 32
"""Of a published array: the most that every supported NumPy can view; 2.0 and later have 64."""
_FOREIGN_TYPES = "ml_dtypes"  # optional
Shape = SupportsIndex | Sequence[SupportsIndex]


def checked_shape(shape: Shape) -> tuple[int, ...]:
    """Turn what a user gives as a shape into a tuple, or raise `InvalidArgument`."""
    try:
        lengths = shape if isinstance(shape, Sequence) else (shape,)
        checked = tuple(operator.index(length) for length in lengths)
    except TypeError:
        raise InvalidArgument(
            f"shape {shape!r} is neither a whole number nor a tuple of whole numbers"
        ) from None
    if any(length < 0 for length in checked):
        raise InvalidArgument(f"shape {checked} has a negative length")
    return checked


def checked_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Turn what a user gives as a dtype into one that can cross processes.

    Raises
    ------
    InvalidArgument
        If it is no dtype, holds Python objects, or another process could not rebuild it.
    """
    try:
        checked = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise InvalidArgument(f"dtype {dtype!r} is not a NumPy dtype: {error}") from None
    if checked.hasobject:
        raise InvalidArgument(f"dtype {checked} holds Python objects, which mean nothing to a peer")
    if checked.subdtype is not None or _rebuild(_to_json(checked)) != checked:
        raise InvalidArgument(
            f"dtype {checked} cannot be described to a peer; allocate 'uint8' and view it"
        )
    return checked


def count_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Count the bytes of an array without gaps."""
    return math.prod(shape) * dtype.itemsize


def dtype_to_text(dtype: np.dtype[Any]) -> str:
    """Write an element type as text: ``<f4``, ``bfloat16``, or JSON for structured types."""
    descr = _to_json(checked_dtype(dtype))
    return descr if isinstance(descr, str) else json.dumps(descr)


def dtype_from_text(text: str) -> np.dtype[Any]:
    """Read what `dtype_to_text` wrote at a peer, trusting nothing in it.

    Raises
    ------
    ProtocolError
        If it is no element type that can cross processes, or one that this process does not know.
    """
    try:
        dtype = _rebuild(json.loads(text) if text.startswith("[") else text)
        if dtype.hasobject or dtype.subdtype is not None:
            raise ValueError("it cannot cross processes")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ProtocolError(f"the peer sent an array of dtype {text!r}: {error}") from None
    return dtype


def describe(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Write the description of an array.

    Raises
    ------
    InvalidArgument
        If it has more dimensions than every peer can view.
    """
    if len(shape) > MAX_DIMENSIONS:
        raise InvalidArgument(
            f"publish an array: it has {len(shape)} dimensions, and peers can view at most"
            f" {MAX_DIMENSIONS}; publish it with fewer dimensions and reshape it at the peer"
        )
    return json.dumps({"array": VERSION, "dtype": _to_json(dtype), "shape": shape})


def parse(
    description: bytes, region_bytes: int, name: str
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the description a peer wrote, trusting nothing in it.

    Raises
    ------
    ProtocolError
        If it is no description of an array, or of one that is larger than its region.
    """
    try:
        fields = json.loads(description)
        if fields["array"] != VERSION:
            raise ValueError(f"version {fields['array']!r} is not {VERSION}")
        lengths = fields["shape"]
        if not isinstance(lengths, list) or len(lengths) > MAX_DIMENSIONS:
            raise ValueError(f"its shape is not a list of at most {MAX_DIMENSIONS} lengths")
        if not all(type(length) is int and length >= 0 for length in lengths):
            raise ValueError(f"shape {lengths} has an impossible length")
        shape, dtype = tuple(lengths), _rebuild(fields["dtype"])
        if dtype.hasobject or dtype.subdtype is not None:
            raise ValueError(f"dtype {dtype} cannot cross processes")
        if count_bytes(shape, dtype) > region_bytes:
            raise ValueError(
                f"shape {shape} of {dtype} needs {count_bytes(shape, dtype)} bytes, and the region"
                f" has {region_bytes}"
            )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ProtocolError(
            f"lookup of '{name}': the peer describes no array there ({error}); use"
            " lookup_bytes() for plain bytes"
        ) from None
    return shape, dtype


def _to_json(dtype: np.dtype[Any]) -> object:
    if dtype.type.__module__ == _FOREIGN_TYPES:
        return dtype.name
    return np.lib.format.dtype_to_descr(dtype)  # type: ignore[no-untyped-call,unused-ignore]


def _rebuild(descr: object) -> np.dtype[Any]:
    if isinstance(descr, str) and descr.isidentifier():
        return _foreign_dtype(descr)
    return cast("np.dtype[Any]", np.lib.format.descr_to_dtype(_as_descr(descr)))  # type: ignore[no-untyped-call,unused-ignore]


def _foreign_dtype(name: str) -> np.dtype[Any]:
    """Find a type of ml_dtypes by its name; ordinary types have an order mark and no such name."""
    try:
        types = importlib.import_module(_FOREIGN_TYPES)
    except ImportError:
        raise ValueError(f"dtype {name!r} needs the package {_FOREIGN_TYPES}") from None
    found = getattr(types, name, None)
    if not (isinstance(found, type) and issubclass(found, np.generic)):
        raise ValueError(f"{name!r} is no element type")
    return np.dtype(found)


def _as_descr(descr: object) -> Any:
    # JSON turned the tuples of a structured type into lists; NumPy insists on tuples.
    if isinstance(descr, str):
        return descr
    if not isinstance(descr, (list, tuple)):
        raise TypeError(f"{descr!r} describes no element type")
    fields = []
    for field in descr:
        name, form, *lengths = field
        name = tuple(name) if isinstance(name, list) else name
        fields.append((name, _as_descr(form), *(tuple(length) for length in lengths)))
    return fields
