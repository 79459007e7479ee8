"""What the segments of a box must hold, and the changes that random programs make."""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from random_programs import box_calls as calls
from random_programs.program import World, choose, need

DTYPES = ("float64", "float32", "int64", "int32")
SHAPES = ((1,), (7,), (40, 25), (300_000,), (0,))
LARGEST = 1 << 20
"""Above this the next change fills: sums stay exact."""
ODD = 2**55 + 1
"""No float64 has it."""
SAME_SIZE = ("copy_from", "swap", "axpy", "accumulate")


@dataclass
class Segment:
    """What a segment of the box must hold."""

    values: Any
    dtype: str
    buffers: int
    epoch: int
    life: int
    """A number of its own for every segment, also under a name that was used before."""
    version: int = 0

    def changed(self, values: Any) -> None:
        self.values, self.version = values, self.version + 1


@dataclass(eq=False)
class Client:
    """A process that is connected to the box."""

    actor: Any
    lives: dict[str, int] = field(default_factory=dict)
    """The life of each segment that it has attached, by name."""
    watched: set[str] = field(default_factory=set)
    leases: list[tuple[int, int]] = field(default_factory=list)
    """Life and version of each lease."""


class BoxWorld(World):
    """The clients of a box, and what its segments must hold."""

    def __init__(self, fabric: str, draw: random.Random, stack: contextlib.ExitStack) -> None:
        super().__init__(fabric, draw, stack)
        self.segments: dict[str, Segment] = {}
        self.clients: list[Client] = []
        self.server: Any = None

    def _client(self, draw: random.Random, there: bool = False) -> Client:
        """Choose a client that can be asked."""
        need(self.server.runs)
        first = 1 if there else 0
        return choose(draw, (one for one in self.clients[first:] if one.actor.runs))

    def _segment(self, draw: random.Random, client: Client) -> str:
        """Choose a segment, and let the client attach it if it has not."""
        name: str = choose(draw, self.segments)
        self._attached(client, name)
        return name

    def _attached(self, client: Client, name: str) -> None:
        life = self.segments[name].life
        if client.lives.get(name, life) != life:
            self._forget(client, name)
        client.lives[name] = life

    def _forget(self, client: Client, name: str) -> None:
        client.actor.run(calls.forget, name)
        client.lives.pop(name, None)
        client.watched.discard(name)

    def _change(self, draw: random.Random, client: Client, name: str) -> tuple[Any, ...]:
        """Draw a change of a segment, and let the model make it."""
        segment = self.segments[name]
        values, size = segment.values, segment.values.size
        start = draw.randint(0, size)
        count = draw.randint(0, size - start)
        part = slice(start, start + count)
        dtype, number = segment.dtype, draw.randint(-50, 50)
        if np.abs(values).max(initial=0) > LARGEST:
            segment.changed(np.full_like(values, number))
            return "fill", (number,), {}
        new, flat = values.copy(), None
        flat = new.reshape(-1)
        kind = draw.choice(["write", "accumulate", "fill", "scale", "signal", "write part",
                            "accumulate part", "fill part", *SAME_SIZE])  # fmt: skip
        if kind in SAME_SIZE:
            other = draw.choice([
                one for one, them in self.segments.items()
                if them.values.shape == values.shape and them.dtype == dtype
            ])  # fmt: skip
            self._attached(client, other)
            return self._of_two(kind, draw.choice([1, 2, -1]), name, other)
        if kind == "signal":
            segment.changed(new)
            return kind, (), {}
        if kind in ("fill", "scale"):
            if kind == "fill" and dtype == "int64":
                number = ODD + 2 * number
            factor = number if kind == "fill" else draw.choice([0, 1, 2, -1])
            segment.changed(np.full_like(new, number) if kind == "fill" else new * factor)
            return kind, (factor,), {}
        if kind == "fill part":
            flat[part] = number
            segment.changed(new)
            return "fill", (number,), {"start": start, "count": count}
        whole = " part" not in kind
        source = np.arange(size if whole else count, dtype=dtype) % 17 + number
        source = source.astype(dtype).reshape(values.shape if whole else (count,))
        options: dict[str, Any] = {} if whole else {"start": start}
        if kind.startswith("accumulate"):
            factor = draw.choice([1, -2])
            flat[:] if whole else flat[part]
            target = flat if whole else flat[part]
            target += source.reshape(-1) * np.dtype(dtype).type(factor)
            segment.changed(new)
            return "accumulate", (source, factor), options
        (flat if whole else flat[part])[...] = source.reshape(-1)
        segment.changed(new)
        return "write", (source,), options

    def _of_two(self, kind: str, factor: int, name: str, other: str) -> tuple[Any, ...]:
        """Let the model make a change with another segment, or with itself."""
        segment, second = self.segments[name], self.segments[other]
        mine, its = segment.values, second.values
        if kind == "swap":
            if name == other:
                segment.changed(mine)
                return "signal", (), {}
            segment.changed(its)
            second.changed(mine)
            return kind, (other,), {}
        if kind == "copy_from":
            segment.changed(its.copy())
            return kind, (other,), {}
        by = mine.dtype.type(factor)
        if kind == "axpy":
            segment.changed(its * by + its)
            return kind, (factor, other, other), {}
        segment.changed(mine + its * by)
        return kind, (other, factor), {}
