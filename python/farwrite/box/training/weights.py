"""Shared weights: the segment that all workers of one training attach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from farwrite.arguments import seconds
from farwrite.box.training.shapes import Array, Shapes
from farwrite.errors import AlreadyExists, DeadlineExceeded, InvalidArgument, NotFound

if TYPE_CHECKING:
    from farwrite.box import Client, Segment


def read_weights(
    client: Client, name: str, arrays: Sequence[Array], timeout: float | None = 30.0
) -> int:
    """Set `arrays` to the shared weights of a training, and return their version.

    For programs that do not train: evaluation, export.

    Parameters
    ----------
    client : Client
        A connection to the box.
    name : str
        The segment of the shared weights.
    arrays : sequence of ndarray
        Arrays of floats, in the shapes and the order of the workers' weights.
    timeout : float or None
        Seconds to wait for the first worker's weights; None waits for ever.

    Raises
    ------
    DeadlineExceeded
        If there are no weights in time.
    InvalidArgument
        If the segment belongs to another model.
    """
    limit = seconds("read_weights", timeout)
    shapes = Shapes("read_weights", arrays)
    shapes.check("read_weights", arrays, writable=True)
    segment = client.attach(name, limit)
    try:
        _check("read_weights", segment, name, shapes)
        flat, version = segment.read_with_version(min_version=1, timeout=limit)
        shapes.scatter(flat, arrays)
        return version
    finally:
        segment.detach()


def open_weights(
    operation: str,
    client: Client,
    name: str,
    shapes: Shapes,
    arrays: Sequence[Array],
    timeout: float | None,
) -> Segment:
    """Attach the segment `name`, with the same contents in every worker's `arrays`.

    The first worker creates the segment and writes its arrays there. The others wait for that
    write, and then their arrays are set to what the segment holds.

    Raises
    ------
    DeadlineExceeded
        If the worker that created the segment did not write it within `timeout` seconds.
    InvalidArgument
        If the segment has another size or type.
    """
    while True:
        try:
            segment = client.create(name, (shapes.size,), np.float32, exclusive=True)
        except AlreadyExists:
            pass
        else:
            flat = np.empty(shapes.size, np.float32)
            shapes.gather(arrays, flat)
            segment.post.write(flat).wait(timeout)
            return segment
        try:
            segment = client.attach(name)
            break
        except NotFound:  # freed since: the next turn creates it
            continue
    try:
        _check(operation, segment, name, shapes)
        # One version of each chunk is enough, as in the steps.
        flat = segment.read(consistent="chunk", min_version=1, timeout=timeout)
    except DeadlineExceeded:
        segment.detach()
        raise DeadlineExceeded(
            f"{operation}: the worker that created the segment '{name}' did not write the first"
            f" weights within {timeout} s; free the segment and start the workers again"
        ) from None
    except BaseException:
        segment.detach()
        raise
    shapes.scatter(flat, arrays)
    return segment


def _check(operation: str, segment: Segment, name: str, shapes: Shapes) -> None:
    if segment.shape != (shapes.size,) or segment.dtype != np.float32:
        raise InvalidArgument(
            f"{operation}: the segment '{name}' holds {segment.dtype} of shape {segment.shape}"
            f" instead of {shapes.size} float32; give the same model to every worker, or choose"
            " another name"
        )
