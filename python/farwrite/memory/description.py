"""The description of a published array: its shape and element type.

The core handles bytes only, and carries a description with each published name. The Python
package writes a JSON object into the description::

    {"array": 1, "dtype": "<f4", "shape": [1024, 1024]}

``array`` is the version of this format. ``dtype`` is the ``descr`` of a ``.npy`` file: text, or a
list of fields for a structured type. Fields that overlap or are out of order have no such list:
their type is an object that has it, and where each field begins::

    {"fields": [["low", "<i4"], ["whole", "<i8"]], "offsets": [0, 0], "itemsize": 8}

A type of the package ``ml_dtypes`` appears under its name: ``bfloat16``, ``float8_e4m3fn``. The
elements are in C order, without gaps.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
from collections.abc import Sequence
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from farwrite.arguments import index, shown
from farwrite.errors import InvalidArgument, ProtocolError
from farwrite.memory.torch import torch_name

VERSION = 1
MAX_DIMENSIONS = 32
"""The limit of a published array, which every supported NumPy can view; NumPy 2.0 allows 64."""
_FOREIGN_TYPES = "ml_dtypes"  # optional
_FOREIGN_NAMES = ("bfloat16", "float8_", "float6_", "float4_")
Shape = SupportsIndex | Sequence[SupportsIndex]


def checked_shape(operation: str, shape: Shape) -> tuple[int, ...]:
    """Turn a caller's shape into a tuple, or raise `InvalidArgument`."""
    text = isinstance(shape, (str, bytes, bytearray, memoryview))  # sequences, but not of lengths
    lengths: Any = shape if isinstance(shape, Sequence) and not text else (shape,)
    try:
        checked = tuple(index(operation, "a length", length) for length in lengths)
    except InvalidArgument:
        raise InvalidArgument(
            f"{operation}: shape {shown(shape)} is neither a whole number nor a tuple of whole"
            " numbers; give the lengths of the dimensions"
        ) from None
    if any(length < 0 for length in checked):
        raise InvalidArgument(
            f"{operation}: shape {shown(checked)} has a negative length; give lengths of 0 or more"
        )
    return checked


def checked_dtype(operation: str, dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Turn a caller's dtype into a NumPy dtype that can be sent to another process.

    Parameters
    ----------
    operation : str
        For error messages: "allocate".
    dtype : dtype
        NumPy's, PyTorch's, or the name of a type of ml_dtypes: "bfloat16".

    Raises
    ------
    InvalidArgument
        If `dtype` is not a dtype, holds Python objects, or cannot be rebuilt by another process:
        a subarray, or a structured type with a field of a type of ml_dtypes.
    """
    try:
        checked = _found_dtype(torch_name(dtype) or dtype)
    except (TypeError, ValueError, SyntaxError) as error:
        raise InvalidArgument(
            f"{operation}: dtype {shown(dtype)} is not a NumPy dtype ({str(error)[:80]}); give one,"
            " for example 'float32'"
        ) from None
    if checked.hasobject:
        raise InvalidArgument(
            f"{operation}: dtype {checked} holds Python objects, which a peer cannot use; give a"
            " dtype without objects"
        )
    if checked.subdtype is not None or not _is_rebuilt(checked):
        raise InvalidArgument(
            f"{operation}: dtype {checked} cannot be described to a peer; allocate 'uint8' and"
            " view it"
        )
    return checked


def check_size(shape: tuple[int, ...], itemsize: int) -> None:
    """Check that NumPy can have an array of `shape`, of elements of `itemsize` bytes.

    Raises
    ------
    ValueError
        If it cannot; the message says why.
    """
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"the shape has {len(shape)} dimensions, more than {MAX_DIMENSIONS}")
    # NumPy counts in 63 bits: the bytes without the lengths of 0, and elements without bytes.
    if math.prod(filter(None, shape)) * max(itemsize, 1) >= 2**63:
        raise ValueError(f"shape {shown(shape)} is larger than an array can be")


def count_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Count the bytes of an array without gaps."""
    return math.prod(shape) * dtype.itemsize


def dtype_to_text(dtype: np.dtype[Any]) -> str:
    """Write an element type as text: ``<f4``, ``bfloat16``, or JSON for structured types."""
    descr = _to_json(checked_dtype("describe an array", dtype))
    return descr if isinstance(descr, str) else json.dumps(descr)


def dtype_from_text(text: str) -> np.dtype[Any]:
    """Parse the text of a peer's `dtype_to_text`, as untrusted input.

    Raises
    ------
    ProtocolError
        If `text` is not an element type that can be sent, or this process lacks the type.
    """
    # Structured ones are made anew: a program may rename the fields of the one that it got.
    return _known_dtype(text) if text.startswith(("<", ">", "|")) else _parsed_dtype(text)


def _parsed_dtype(text: str) -> np.dtype[Any]:
    try:
        dtype = _rebuild(json.loads(text) if text.startswith(("[", "{")) else text)
        if dtype.hasobject or dtype.subdtype is not None:
            raise ValueError("it holds Python objects or is a subarray")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ProtocolError(f"the peer sent an array of dtype {text!r}: {error}") from None
    return dtype


_known_dtype = functools.lru_cache(maxsize=64)(_parsed_dtype)


def describe(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    """Write the description of an array.

    Raises
    ------
    InvalidArgument
        If the array has more than `MAX_DIMENSIONS` dimensions.
    """
    if len(shape) > MAX_DIMENSIONS:
        raise InvalidArgument(
            f"publish: the array has {len(shape)} dimensions and peers can view at most"
            f" {MAX_DIMENSIONS}; publish it with fewer dimensions and reshape it at the peer"
        )
    return json.dumps({"array": VERSION, "dtype": _to_json(dtype), "shape": shape})


def parse(
    description: bytes, region_bytes: int, name: str
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Parse a peer's description, as untrusted input.

    Raises
    ------
    ProtocolError
        If `description` does not describe an array, or the array is larger than its region.
    """
    try:
        fields = json.loads(description)
        if fields["array"] != VERSION:
            raise ValueError(f"version {fields['array']!r} is not {VERSION}")
        lengths = fields["shape"]
        if not isinstance(lengths, list) or len(lengths) > MAX_DIMENSIONS:
            raise ValueError(f"its shape is not a list of at most {MAX_DIMENSIONS} lengths")
        if not all(type(length) is int and length >= 0 for length in lengths):
            raise ValueError(f"shape {lengths} has an invalid length")
        shape, dtype = tuple(lengths), _rebuild(fields["dtype"])
        if dtype.hasobject or dtype.subdtype is not None:
            raise ValueError(f"dtype {dtype} holds Python objects or is a subarray")
        check_size(shape, dtype.itemsize)
        if count_bytes(shape, dtype) > region_bytes:
            raise ValueError(
                f"shape {shape} of {dtype} needs {count_bytes(shape, dtype)} bytes, and the memory"
                f" has {region_bytes}"
            )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ProtocolError(
            f"lookup of '{name}': the peer's description is not a valid array ({error}); use"
            " lookup_bytes() for plain bytes"
        ) from None
    return shape, dtype


def _to_json(dtype: np.dtype[Any]) -> object:
    if dtype.type.__module__ == _FOREIGN_TYPES:
        return dtype.name
    try:
        return np.lib.format.dtype_to_descr(dtype)  # type: ignore[no-untyped-call,unused-ignore]
    except ValueError:  # NumPy describes no fields that overlap or are out of order
        return _placed_to_json(dtype)


def _placed_to_json(dtype: np.dtype[Any]) -> dict[str, object]:
    fields, offsets = [], []
    for name in dtype.names or ():
        kind, offset, *title = cast("Any", dtype.fields)[name]
        base, lengths = kind.subdtype or (kind, ())
        heading = (*title, name) if title else name
        fields.append((heading, _to_json(base), *([lengths] if lengths else ())))
        offsets.append(offset)
    return {"fields": fields, "offsets": offsets, "itemsize": dtype.itemsize}


def _is_rebuilt(dtype: np.dtype[Any]) -> bool:
    try:
        return _rebuild(json.loads(json.dumps(_to_json(dtype)))) == dtype
    except (ValueError, TypeError):  # with a title that is not text, for example
        return False


def _rebuild(descr: object) -> np.dtype[Any]:
    if isinstance(descr, str) and descr.isidentifier():
        return _foreign_dtype(descr)
    if isinstance(descr, dict):
        return _rebuild_placed(descr["fields"], descr["offsets"], descr["itemsize"])
    return cast("np.dtype[Any]", np.lib.format.descr_to_dtype(_as_descr(descr)))  # type: ignore[no-untyped-call,unused-ignore]


def _rebuild_placed(fields: Any, offsets: Any, itemsize: object) -> np.dtype[Any]:
    if not all(type(place) is int and 0 <= place < 2**31 for place in (itemsize, *offsets)):
        raise ValueError(f"offsets {shown(offsets)} in {shown(itemsize)} bytes are not valid")
    names, titles = [], []
    formats: list[np.dtype[Any]] = []
    for heading, form, *lengths in fields:
        title, name = (None, heading) if isinstance(heading, str) else heading
        if not (title is None or isinstance(title, str)):
            raise TypeError(f"title {shown(title)} is not text")
        names.append(name)
        titles.append(title)
        kind: Any = _rebuild(form)
        formats.append(np.dtype((kind, *map(tuple, lengths))) if lengths else kind)
    placed: Any = {
        "names": names, "formats": formats, "offsets": list(offsets), "titles": titles,
        "itemsize": itemsize,
    }  # fmt: skip
    return cast("np.dtype[Any]", np.dtype(placed))


def _found_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        return np.dtype(dtype)
    except TypeError:  # NumPy knows the names only once the package was imported
        if not (isinstance(dtype, str) and dtype.startswith(_FOREIGN_NAMES)):
            raise
        return _foreign_dtype(dtype)


def _foreign_dtype(name: str) -> np.dtype[Any]:
    """Find a type of ml_dtypes by its name; ordinary types have an order mark and no such name."""
    try:
        types = importlib.import_module(_FOREIGN_TYPES)
    except ImportError:
        raise ValueError(f"dtype {name!r} needs the package {_FOREIGN_TYPES}") from None
    found = getattr(types, name, None)
    if not (isinstance(found, type) and issubclass(found, np.generic)):
        raise ValueError(f"{name!r} is not an element type")
    return np.dtype(found)


def _as_descr(descr: object) -> Any:
    # JSON turned the tuples of a structured type into lists; NumPy insists on tuples.
    if isinstance(descr, str):
        return descr
    if not isinstance(descr, (list, tuple)):
        raise TypeError(f"{descr!r} does not describe an element type")
    fields = []
    for field in descr:
        name, form, *lengths = field
        name = tuple(name) if isinstance(name, list) else name
        fields.append((name, _as_descr(form), *(tuple(length) for length in lengths)))
    return fields
