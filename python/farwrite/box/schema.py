"""Schema: how a model's tensors lie in one segment.

A model is a dict, a list or a tuple of arrays, of any depth. Its tensors lie one after the other in
C order: small ones at a multiple of 64 bytes, those of 64 KiB and more at a page. The description
of the segment has the schema as JSON::

    {"model": 1, "bytes": 4160, "tree": {"dict": {"w": ["<f4", [32, 32], 0], "b": ...}}}

``model`` is the version of this format. A tensor is its element type as in
farwrite.memory.description, its shape and its offset in bytes. ``{"list": [...]}`` is a list or a
tuple. ``bytes`` are those of the tensors. A published model has ``"step": OFFSET`` as well: there
the publisher's step follows the tensors, as u64 1 if it gave one and i64 the step, both
little-endian.
"""

from __future__ import annotations

import importlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import text
from farwrite.box.element import Elements, Layout, elements_of, type_name
from farwrite.errors import Error, InvalidArgument, ResourceExhausted, Unsupported
from farwrite.memory.description import check_size, checked_shape

VERSION = 1
ALIGNMENT = 64
"""Of a small tensor in the segment, in bytes."""
PAGE = 4096
"""Of a large one. A copy is up to three times slower where source and destination differ by a
little more than a multiple of a page; a library's large arrays start soon after a page does."""
LARGE = 1 << 16
_STEP = struct.Struct("<Qq")
_DEPTH = 32
"""The most levels of a model."""

Tree = Any
"""A dict or list of trees, or a leaf: an array of the caller, or a `Slot` of a schema."""


class Slot:
    """Where a tensor lies in the segment."""

    __slots__ = ("layout", "offset")

    def __init__(self, layout: Layout, offset: int) -> None:
        self.layout = layout
        self.offset = offset

    def view(self, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Return the tensor's bytes in the bytes of the segment."""
        return data[self.offset : self.offset + self.layout.nbytes]


class Schema:
    """The tensors of a model, and where they lie. Internal."""

    def __init__(self, tree: Tree, nbytes: int, step_at: int | None = None) -> None:
        self.tree = tree
        self.nbytes = nbytes
        """Of the tensors."""
        self.step_at = step_at
        """Offset of the publisher's step; None if there is no place for one."""

    @property
    def segment_nbytes(self) -> int:
        """Bytes of a segment with this schema."""
        return max(self.nbytes, 1) if self.step_at is None else self.step_at + _STEP.size

    @classmethod
    def of(cls, operation: str, model: Tree, *, step: bool = False) -> Schema:
        """Make the schema of a caller's model, with a place for the publisher's step if asked to.

        Raises
        ------
        InvalidArgument
            If the model is not a dict or list of arrays.
        """
        _check_model(operation, model)
        end = 0

        def place(path: str, leaf: object) -> Slot:
            nonlocal end
            elements = _leaf(operation, path, leaf)
            step = PAGE if elements.data.nbytes >= LARGE else ALIGNMENT
            start = -(-end // step) * step
            slot = Slot(Layout(elements.text, elements.shape), start)
            try:
                check_size(slot.layout.shape, slot.layout.itemsize)
            except ValueError as error:
                raise InvalidArgument(
                    f"{operation}: '{path}' of the model: {error}; leave it out"
                ) from None
            end = start + slot.layout.nbytes
            return slot

        tree = _mapped(operation, model, place)
        return cls(tree, end, -(-end // ALIGNMENT) * ALIGNMENT if step else None)

    def to_json(self) -> str:
        """Write the description of the segment.

        Raises
        ------
        ResourceExhausted
            If it is longer than the server accepts.
        """

        def write(tree: Tree) -> object:
            if isinstance(tree, Slot):
                return [tree.layout.text, tree.layout.shape, tree.offset]
            if isinstance(tree, dict):
                return {"dict": {key: write(child) for key, child in tree.items()}}
            return {"list": [write(child) for child in tree]}

        fields = {"model": VERSION, "bytes": self.nbytes}
        if self.step_at is not None:
            fields["step"] = self.step_at
        text = json.dumps({**fields, "tree": write(self.tree)}, separators=(",", ":"))
        if len(text.encode()) > _farwrite.BOX_MAX_DESCRIPTION:
            raise ResourceExhausted(
                f"publish: the schema of {self.count()} tensors has {len(text)} bytes, and a"
                f" segment's description at most {_farwrite.BOX_MAX_DESCRIPTION}; publish the model"
                " in parts, or under shorter names"
            )
        return text

    @classmethod
    def parse(cls, operation: str, name: str, description: bytes, nbytes: int) -> Schema:
        """Parse the description of a segment, as untrusted input.

        Raises
        ------
        InvalidArgument
            If it is not that of a model, or does not fit the segment.
        """

        def read(tree: Any, depth: int) -> Tree:
            if depth > _DEPTH:
                raise ValueError(f"it has more than {_DEPTH} levels")
            if isinstance(tree, list):
                text, shape, offset = tree
                layout = Layout(str(text), checked_shape(operation, tuple(shape)))
                check_size(layout.shape, layout.itemsize)
                if type(offset) is not int or offset < 0 or offset + layout.nbytes > nbytes:
                    raise ValueError(f"a tensor at {offset} exceeds the segment's {nbytes} bytes")
                return Slot(layout, offset)
            if "dict" in tree:
                return {str(key): read(child, depth + 1) for key, child in tree["dict"].items()}
            return [read(child, depth + 1) for child in tree["list"]]

        try:
            fields = json.loads(description)
        except (ValueError, RecursionError):  # also bytes that are no UTF-8
            fields = None
        if not isinstance(fields, dict) or "model" not in fields:
            raise InvalidArgument(
                f"{operation}: the segment '{name}' holds no model, because no publisher created"
                " it; give the name of a publisher, or attach the segment"
            )
        try:
            if fields["model"] != VERSION:
                raise ValueError(f"version {fields['model']!r} is not {VERSION}")
            step_at = fields.get("step")
            if step_at is not None and (
                type(step_at) is not int or not 0 <= step_at <= nbytes - _STEP.size
            ):
                raise ValueError(f"a step at {step_at!r} exceeds the segment's {nbytes} bytes")
            tensors = fields["bytes"]
            if type(tensors) is not int or not 0 <= tensors <= nbytes:
                raise ValueError(f"{tensors!r} bytes exceed the segment's {nbytes}")
            return cls(read(fields["tree"], 0), tensors, step_at)
        except (Error, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InvalidArgument(
                f"{operation}: the segment '{name}' holds no model ({type(error).__name__}:"
                f" {error}); publish one under another name, or attach the segment"
            ) from None

    def count(self) -> int:
        """Return the number of tensors."""
        return sum(1 for _ in _leaves((), self.tree, "count"))

    def pack(
        self, operation: str, model: Tree, data: npt.NDArray[np.uint8], step: int | None = None
    ) -> None:
        """Copy the tensors of `model`, and the step, into `data`, the bytes of a segment.

        Raises
        ------
        InvalidArgument
            If a name, shape or dtype of `model` differs from the schema; nothing is copied then.
        """
        matched = self.match(operation, model)
        for slot, elements in matched:
            if elements.data.nbytes:
                _farwrite.copy(slot.view(data), elements.data)
        if self.step_at is not None:
            packed = _STEP.pack(step is not None, 0 if step is None else step)
            _farwrite.copy(data[self.step_at : self.step_at + _STEP.size], packed)

    def step(self, data: npt.NDArray[np.uint8]) -> int | None:
        """Return the publisher's step in `data`, the bytes of a segment."""
        if self.step_at is None:
            return None
        given, step = _STEP.unpack(data[self.step_at : self.step_at + _STEP.size].tobytes())
        return int(step) if given else None

    def match(self, operation: str, model: Tree) -> list[tuple[Slot, Elements]]:
        """Pair the tensors of `model` with the schema's.

        Raises
        ------
        InvalidArgument
            If a name, shape or dtype of `model` differs from the schema.
        """
        _check_model(operation, model)
        given = dict(_leaves((), model, operation))
        matched = []
        for keys, slot in _leaves((), self.tree, operation):
            path = "/".join(keys)
            if keys not in given:
                raise InvalidArgument(
                    f"{operation}: the model lacks '{path}', which the first one had; publish a"
                    " model of the same names"
                )
            elements = _leaf(operation, path, given.pop(keys))
            if not slot.layout.same_as(elements):
                raise InvalidArgument(
                    f"{operation}: '{path}' has shape {elements.shape} and dtype"
                    f" {type_name(elements.text)}, and the first model had {slot.layout.shape} and"
                    f" {slot.layout.name}; convert it, or publish under another name"
                )
            matched.append((slot, elements))
        if given:
            path = "/".join(next(iter(given)))
            raise InvalidArgument(
                f"{operation}: the model has '{path}', which the first one lacked; publish a model"
                " of the same names"
            )
        return matched

    def unpack(self, data: npt.NDArray[np.uint8]) -> Tree:
        """View the tensors in `data`, the bytes of a segment."""
        return _with_leaves(self.tree, lambda slot: slot.layout.over(slot.view(data)))

    def unpack_torch(self, data: npt.NDArray[np.uint8]) -> Tree:
        """View the tensors in `data`, which is writable, as PyTorch's.

        Raises
        ------
        Unsupported
            If PyTorch is not installed, or lacks a dtype.
        """
        try:
            torch: Any = importlib.import_module("torch")
        except ImportError:
            raise Unsupported(
                "PyTorch is not installed; install the package torch, or use the NumPy arrays"
            ) from None

        def view(slot: Slot) -> Any:
            dtype = getattr(torch, slot.layout.name, None)
            if dtype is None:
                raise Unsupported(f"PyTorch has no dtype {slot.layout.name}; use the NumPy array")
            if slot.layout.nbytes == 0:
                return torch.empty(slot.layout.shape, dtype=dtype)
            flat = torch.from_numpy(slot.view(data))
            return flat.view(dtype).reshape(slot.layout.shape)

        return _with_leaves(self.tree, view)

    def difference(self, earlier: Schema) -> str | None:
        """Say where the tensors differ from an earlier model's, by names; None: nowhere.

        The order of the names and the places in the segment may differ.
        """

        def found(mine: Tree, its: Tree, path: str) -> str | None:
            where = f"'{path}'" if path else "the model"
            if isinstance(mine, Slot) and isinstance(its, Slot):
                if mine.layout.same_as(its.layout):
                    return None
                return (
                    f"{where} has shape {mine.layout.shape} and dtype {mine.layout.name}, and the"
                    f" earlier one had {its.layout.shape} and {its.layout.name}"
                )
            if type(mine) is not type(its):
                return f"{where} is {_kind(mine)}, and the earlier one was {_kind(its)}"
            mine, its = _children(mine), _children(its)
            for key in mine.keys() - its.keys():
                return f"the model has '{_join(path, key)}', which the earlier one lacked"
            for key in its.keys() - mine.keys():
                return f"the model lacks '{_join(path, key)}', which the earlier one had"
            for key, child in mine.items():
                if difference := found(child, its[key], _join(path, key)):
                    return difference
            return None

        return found(self.tree, earlier.tree, "")


def _with_leaves(tree: Tree, view: Callable[[Slot], Any]) -> Tree:
    if isinstance(tree, Slot):
        return view(tree)
    if isinstance(tree, dict):
        return {key: _with_leaves(child, view) for key, child in tree.items()}
    return [_with_leaves(child, view) for child in tree]


def _kind(tree: Tree) -> str:
    if isinstance(tree, Slot):
        return "a tensor"
    return "a dict" if isinstance(tree, dict) else "a list"


def _children(tree: Tree) -> dict[Any, Tree]:
    return tree if isinstance(tree, dict) else dict(enumerate(tree))


def _check_model(operation: str, model: object) -> None:
    if isinstance(model, (Mapping, list, tuple)):
        return
    remedy = "give a dict or a list of arrays"
    if hasattr(model, "state_dict"):
        remedy = "give model.state_dict()"
    elif hasattr(model, "dtype"):
        remedy = "give [array], or let box.create() make a segment of its shape and write it there"
    raise InvalidArgument(f"{operation}: the model is {type(model).__name__}; {remedy}")


def _leaf(operation: str, path: str, leaf: object) -> Elements:
    if leaf is None:
        raise InvalidArgument(f"{operation}: '{path}' of the model is None; leave it out")
    if isinstance(leaf, (bool, int, float, complex, np.generic)):
        leaf = np.asarray(leaf)
    try:
        return elements_of(operation, leaf)
    except InvalidArgument as error:
        cause, _, remedy = str(error).partition("; ")
        raise InvalidArgument(f"{cause} (this is '{path}' of the model); {remedy}") from None


def _mapped(operation: str, tree: Tree, place: Callable[[str, object], Any]) -> Tree:
    def walk(path: str, node: Tree, depth: int) -> Tree:
        _check_depth(operation, depth)
        if isinstance(node, Mapping):
            for key in node:
                _check_name(operation, path, key)
            return {key: walk(_join(path, key), child, depth + 1) for key, child in node.items()}
        if isinstance(node, (list, tuple)):
            return [walk(_join(path, i), child, depth + 1) for i, child in enumerate(node)]
        return place(path, node)

    return walk("", tree, 0)


def _check_depth(operation: str, depth: int) -> None:
    if depth > _DEPTH:
        raise InvalidArgument(
            f"{operation}: the model has more than {_DEPTH} levels; give one with fewer"
        )


def _check_name(operation: str, path: str, key: str) -> None:
    if not (type(key) is str and key.isascii()):  # or else it takes a while
        text(operation, f"the name of a tensor in '{path}',", key)


def _leaves(
    keys: tuple[str, ...], tree: Tree, operation: str
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each leaf with its keys: joined to a path, two leaves may have the same one.

    Raises
    ------
    InvalidArgument
        If the tree has too many levels, or a name that is no text.
    """
    _check_depth(operation, len(keys))
    if isinstance(tree, Mapping):
        path = "/".join(keys)
        for key, child in tree.items():
            _check_name(operation, path, key)
            yield from _leaves((*keys, key), child, operation)
    elif isinstance(tree, (list, tuple)):
        for index, child in enumerate(tree):
            yield from _leaves((*keys, str(index)), child, operation)
    else:
        yield keys, tree


def _join(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)
