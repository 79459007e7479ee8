"""Shared weights: the segment that all workers of one training attach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from farwrite.arguments import seconds, text
from farwrite.box.training.claims import Workers, checked_client
from farwrite.box.training.shapes import Arrays, Shapes, finite, names_of
from farwrite.errors import FailedPrecondition, InvalidArgument

if TYPE_CHECKING:
    from farwrite.box import Client, Segment


def read_weights(
    client: Client,
    name: str,
    arrays: Arrays,
    timeout: float | None = 30.0,
    *,
    types: Sequence[str] | None = None,
) -> int:
    """Set `arrays` to the shared weights of a training, and return their version.

    For programs that do not train: evaluation, export.

    Parameters
    ----------
    client : Client
        A connection to the box.
    name : str
        The segment of the shared weights.
    arrays : sequence or dict of ndarray
        Arrays of the names, shapes, dtypes and order of the workers' weights.
    timeout : float or None
        Seconds to wait for the first worker's weights; None waits for ever.
    types : sequence of str, optional
        As in `SEASGD`.

    Raises
    ------
    DeadlineExceeded
        If there are no weights in time.
    InvalidArgument
        If the segment belongs to another model; the message names the tensor.
    """
    limit = seconds("read_weights", timeout)
    checked_client("read_weights", client)
    text("read_weights", "name", name)
    shapes = Shapes("read_weights", arrays, types)
    shapes.check("read_weights", arrays, writable=True)
    segment = client.attach(name, limit)
    try:
        shapes.check_same("read_weights", name, segment.description, "the workers'")
        flat, version = segment.read_with_version(min_version=1, timeout=limit)
        shapes.scatter(flat, arrays)
        return version
    finally:
        segment.detach()


def shared_names(client: Client, name: str, timeout: float | None) -> set[str]:
    """Return the names of the tensors that a training shares; none if it is no training.

    Raises
    ------
    NotFound, DeadlineExceeded
        If there is no segment `name` after `timeout` seconds.
    """
    segment = client.attach(name, timeout)
    try:
        return set(names_of(segment.description))
    finally:
        segment.detach()


def open_weights(
    operation: str, client: Client, name: str, shapes: Shapes, workers: Workers
) -> tuple[Segment, bool]:
    """Attach the segment of the weights; return it, and whether this worker gives it its contents.

    Raises
    ------
    AlreadyExists
        As `Workers.open`.
    InvalidArgument
        If the segment belongs to another model.
    """
    segment, empty = workers.open(
        name,
        lambda: client.create(name, (shapes.size,), shapes.dtype, description=shapes.description()),
    )
    try:
        shapes.check_same(operation, name, segment.description, "the first worker's")
    except BaseException:
        segment.detach()
        raise
    return segment, empty


def take_weights(
    segment: Segment, empty: bool, shapes: Shapes, arrays: Arrays, timeout: float | None
) -> None:
    """Write `arrays` to the segment if it is empty; otherwise set them to what it holds.

    Raises
    ------
    DeadlineExceeded
        If that took longer than `timeout` seconds.
    InvalidArgument
        If the arrays, which all workers would start from, have NaN or infinity.
    FailedPrecondition
        If the shared weights have.
    """
    if empty:
        flat = np.empty(shapes.size, shapes.dtype)
        shapes.gather(arrays, flat)
        if not finite((flat,)):
            raise InvalidArgument(
                f"the first weights of '{segment.name}' have NaN or infinity, and every worker"
                " would start from them; give finite ones"
            )
        segment.post.write(flat).wait(timeout)
        return
    # One version of each chunk is enough, as in the steps.
    flat = segment.read(consistent="chunk", min_version=1, timeout=timeout)
    if not finite((flat,)):
        raise FailedPrecondition(
            f"the shared weights of '{segment.name}' have NaN or infinity, and this worker would"
            " start from them; end all workers and free the segment, or choose another name"
        )
    shapes.scatter(flat, arrays)
