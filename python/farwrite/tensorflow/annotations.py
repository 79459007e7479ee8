"""Annotations of a tensor's shape, for shapes that TensorFlow cannot infer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from farwrite.errors import InvalidArgument
from farwrite.optional import import_optional
from farwrite.plugin.wheel import INSTALL

tf: Any = import_optional("tensorflow", "farwrite.tensorflow", INSTALL)

Tensor = TypeVar("Tensor")

# Attributes of the op, with the output's number behind them, which src/tensorflow/edges/edge_note.h
# names. An op that TensorFlow's optimizer replaces loses them; the plug-in remembers its name.
PINNED = "_farwrite_pin_shape_"
BOUND = "_farwrite_max_shape_"


def pin_shape(tensor: Tensor, shape: Iterable[int]) -> Tensor:
    """Declare that `tensor` has `shape` in every step, and return `tensor`.

    Use it for tensors of a graph or a `tf.function` that are sent to another task. A tensor with
    another shape is still sent, like a tensor of unknown size. `stats()["broke_annotations"]` and
    `edges()` count it. For eager tensors, which have no graph, the call does nothing.

    Parameters
    ----------
    tensor : Tensor
        A tensor of TensorFlow.
    shape : iterable of int
        Sizes of all dimensions.

    Raises
    ------
    InvalidArgument
        If `shape` has an unknown size, or contradicts the shape that TensorFlow infers.
    """
    sizes = _sizes("pin_shape", shape)
    if tf.is_symbolic_tensor(tensor) and not _shape(tensor).is_compatible_with(sizes):
        raise InvalidArgument(
            f"pin_shape: {_named(tensor)} cannot have the shape {sizes}; give a shape that matches"
        )
    return _annotate("pin_shape", PINNED, tensor, sizes)


def bound_shape(tensor: Tensor, max_shape: Iterable[int]) -> Tensor:
    """Declare that no dimension of `tensor` exceeds `max_shape`, and return `tensor`.

    Otherwise the function is like `pin_shape`.

    Parameters
    ----------
    tensor : Tensor
        A tensor of TensorFlow.
    max_shape : iterable of int
        The largest sizes of all dimensions.

    Raises
    ------
    InvalidArgument
        As `pin_shape`.
    """
    sizes = _sizes("bound_shape", max_shape)
    if tf.is_symbolic_tensor(tensor):
        known = _shape(tensor)
        if known.rank is not None and (
            known.rank != len(sizes)
            or any(
                size is not None and size > limit
                for size, limit in zip(known.as_list(), sizes, strict=True)
            )
        ):
            raise InvalidArgument(
                f"bound_shape: {_named(tensor)} does not fit into {sizes}; give larger sizes"
            )
    return _annotate("bound_shape", BOUND, tensor, sizes)


def _sizes(function: str, shape: Iterable[int]) -> list[int]:
    sizes = list(shape)
    if any(isinstance(size, bool) or not hasattr(size, "__index__") for size in sizes):
        raise InvalidArgument(
            f"{function}: {sizes} is not a shape; give a whole number for every size"
        )
    sizes = [size.__index__() for size in sizes]
    if any(size < 0 for size in sizes):
        raise InvalidArgument(f"{function}: {sizes} has a negative size; give sizes >= 0")
    return sizes


def _annotate(function: str, attribute: str, tensor: Tensor, sizes: list[int]) -> Tensor:
    if not tf.is_tensor(tensor):
        raise InvalidArgument(f"{function}: {tensor!r} is not a tensor; give a TensorFlow tensor")
    if tf.is_symbolic_tensor(tensor):
        graph_tensor: Any = tensor
        value = tf.compat.v1.AttrValue(shape=tf.TensorShape(sizes).as_proto())
        graph_tensor.op._set_attr(f"{attribute}{graph_tensor.value_index}", value)
    return tensor


def _shape(tensor: Any) -> Any:
    return tensor.shape


def _named(tensor: Any) -> str:
    return f"{tensor.name}, inferred as {tensor.shape},"
