"""What the receiver of one direction of a channel may find, in a random program."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from random_programs import channel_calls as calls


class Cell:
    """What a cell of an inbox may hold, of writes that no flush or notification orders."""

    def __init__(self) -> None:
        self.landed, self.pending = {0}, set[int]()
        self.gone = set[int]()
        """What was overwritten."""
        self.below: dict[int, set[int]] = {0: set()}
        """By value: what had landed before it was written, or was gone."""

    def write(self, value: int) -> None:
        self.below[value] = self.landed | self.gone
        self.pending.add(value)

    def land(self, values: Iterable[int]) -> None:
        """These are visible, whatever came between."""
        for value in self.pending.intersection(values):
            self.pending.remove(value)
            self.gone |= self.landed & self.below[value]
            self.landed = (self.landed - self.below[value]) | {value}

    def may_hold(self) -> set[int]:
        return self.landed | self.pending


class Way:
    """One direction of a channel: what its receiver may find."""

    def __init__(self, sender: Any, receiver: Any, lanes: int) -> None:
        self.sender, self.receiver = sender, receiver
        self.cells = [Cell() for _ in range(calls.CELLS)]
        self.notes: list[deque[tuple[int, bytes]]] = [deque() for _ in range(lanes)]
        """Tags and messages that were not taken, by lane."""
        self.handled: int | None = None
        """How many notifications a handler has got, if there is one."""

    def waiting(self) -> int:
        return sum(len(lane) for lane in self.notes)

    def flushed(self) -> None:
        for cell in self.cells:
            cell.land(list(cell.pending))

    def took(self, taken: Iterable[calls.Taken], later: bool = False) -> None:
        """Check notifications: each is the next of its lane, and its bytes are there.

        If they were taken at an earlier time, the cells held what came between, too.
        """
        for tag, lane, message, held in taken:
            assert self.notes[lane], f"{tag} came on lane {lane}, where nothing was sent"
            expected = self.notes[lane].popleft()
            assert (tag, message) == expected, f"lane {lane}: {tag}, not {expected[0]}"
            number, value = tag % 16, tag // 16
            if number == calls.NO_CELL:
                continue
            cell = self.cells[number]
            cell.land([value])
            if later:
                assert cell.below[value].isdisjoint(held), f"{held} is held behind {value}"
            else:
                assert cell.may_hold().issuperset(held), (
                    f"cell {number} holds {held} behind {value}, not {cell.may_hold()}"
                )

    def look(self) -> None:
        for cell, found in zip(self.cells, self.receiver.run(calls.cells), strict=True):
            assert cell.may_hold().issuperset(found), f"{found} is held, not {cell.may_hold()}"
