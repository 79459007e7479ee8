"""Shared weights: the segment that all workers of one training attach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from farwrite.box.training.shapes import Array, Shapes
from farwrite.errors import AlreadyExists, DeadlineExceeded, InvalidArgument, NotFound

if TYPE_CHECKING:
    from farwrite.box import Client, Segment


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
    flat = np.empty(shapes.size, np.float32)
    while True:
        try:
            segment = client.create(name, (shapes.size,), np.float32, exclusive=True)
        except AlreadyExists:
            pass
        else:
            shapes.gather(arrays, flat)
            segment.post.write(flat).wait(timeout)
            return segment
        try:
            segment = client.attach(name)
            break
        except NotFound:  # freed since: the next turn creates it
            continue
    if segment.shape != (shapes.size,) or segment.dtype != np.float32:
        shape, dtype = segment.shape, segment.dtype
        segment.detach()
        raise InvalidArgument(
            f"{operation}: the segment '{name}' holds {dtype} of shape {shape} instead of"
            f" {shapes.size} float32; give the same model to every worker, or choose another name"
        )
    try:
        segment.read(flat, consistent="chunk", min_version=1, timeout=timeout)
    except DeadlineExceeded:
        segment.detach()
        raise DeadlineExceeded(
            f"{operation}: the worker that created the segment '{name}' did not write the first"
            f" weights within {timeout} s; free the segment and start the workers again"
        ) from None
    shapes.scatter(flat, arrays)
    return segment
