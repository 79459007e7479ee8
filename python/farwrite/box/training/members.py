"""Members: the processes of a group, and the generation that they agree on."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from farwrite.box.training.claims import TURN_S, claim, give_back
from farwrite.box.training.counters import MOST_WORKERS
from farwrite.box.training.shapes import Shapes
from farwrite.errors import (
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
)
from farwrite.long_wait import LongWait

if TYPE_CHECKING:
    from farwrite.box import Client, Segment

ROOT = 0
_INBOX = 1024  # bytes of a letter


class _Seen(NamedTuple):
    """The claim of a member, as the box lists it."""

    rank: int
    key: int
    forming: bool  # no letter was written to it yet


class Members:
    """One member's view of a group that forms, and of who of it lives.

    Each member claims its rank: the segment NAME.RANK, which vanishes with its process. What it
    was told of the group is the segment's description. Its bytes are an inbox for one letter: the
    generation from the root, or why the group cannot form. The root waits until all ranks are
    claimed, compares what the members were told, and then prepares what they share under the name
    of the generation: the key of its own claim, which no other segment ever has.

    Parameters
    ----------
    client : Client
        The member's connection to the box.
    name : str
        The name of the group.
    shapes : Shapes
        The tensors, which are the same in every member.
    rank, size : int
        This member, and how many there are.
    timeout : float or None
        Seconds that the group may take to form; None waits for ever.

    Raises
    ------
    AlreadyExists
        If a living process is that member, or the box has something else of that name.
    """

    def __init__(
        self, client: Client, name: str, shapes: Shapes, rank: int, size: int, timeout: float | None
    ) -> None:
        self._client = client
        self._name = name
        self._shapes = shapes
        self._rank = rank
        self._size = size
        self._timeout = timeout
        self._wait = LongWait(timeout)
        told = json.dumps({"size": size, **json.loads(shapes.description())})
        try:
            self._claim = claim(
                lambda: client.create_bytes(
                    f"{name}.{rank}", _INBOX, told, buffers=2, temporary=True
                )
            )
        except AlreadyExists:
            said = (
                f"two living processes are member {rank} of '{name}'; give each process its rank,"
                " and each group a name"
            )
            with contextlib.suppress(NotFound):  # it has left
                segment = client.attach(f"{name}.{rank}", 0)
                said = said if _told(segment) else self._foreign(rank)
                segment.detach()
            self._refuse(said)
            raise AlreadyExists(f"BoxGroup: {said}") from None

    @property
    def key(self) -> int:
        """The key of this member's claim."""
        return self._claim.key

    # --- The root.

    def gather(self) -> list[int]:
        """Wait until all ranks are claimed by members that agree; return the keys, by rank.

        Raises
        ------
        InvalidArgument
            If a member was told of another size or model.
        FailedPrecondition
            If another process was refused as one of the members.
        DeadlineExceeded
            If not all members came in time.
        """
        agreed = {ROOT: self.key}
        while True:
            self._read_letter()
            seen = self._seen()
            for one in seen:
                if one.forming and agreed.get(one.rank) != one.key and self._agrees(one):
                    agreed[one.rank] = one.key
            living = {one.rank: one for one in seen}
            if all(
                rank in living and living[rank].forming and agreed.get(rank) == living[rank].key
                for rank in range(self._size)
            ):
                return [agreed[rank] for rank in range(self._size)]
            absent = self._absent(living)
            if self._wait.left() == 0:
                raise DeadlineExceeded(
                    f"BoxGroup: member {self._rank} waited {self._timeout} s for {absent}; end"
                    " those of an earlier group, and start all members again"
                )
            self._wait.tell(
                f"BoxGroup: member {self._rank} waits for {absent}; start those that are missing"
            )
            time.sleep(TURN_S)

    def invite(self, keys: list[int], generation: str) -> None:
        """Write the generation to the other members. From now on nothing can refuse the group."""
        self._claim.signal()
        for key in keys[1:]:
            self._write(key, {"generation": generation})

    # --- The other members.

    def invited(self) -> str:
        """Wait for the generation, and return it.

        Raises
        ------
        FailedPrecondition
            If the members do not agree, or another process was refused as one of them.
        DeadlineExceeded
            If the root did not gather all members in time.
        """
        try:
            LongWait(self._timeout).call(
                lambda left: self._claim.wait(1, left),
                f"BoxGroup: member {self._rank} waits for the {self._size} members of"
                f" '{self._name}' to start; check that all are alive",
            )
        except DeadlineExceeded:
            raise DeadlineExceeded(
                f"BoxGroup: member {self._rank} waited {self._timeout} s for the {self._size}"
                f" members of '{self._name}' to start; check that all are alive, and that none is"
                " left of an earlier group"
            ) from None
        generation = self._read_letter()
        assert generation is not None
        return generation

    # --- Every member.

    def missing(self, keys: list[int]) -> list[int]:
        """Return the ranks of those that have closed or died."""
        living = {one.key for one in self._seen()}
        return [rank for rank, key in enumerate(keys) if key not in living]

    def leave(self) -> None:
        """Give the rank back."""
        give_back(self._claim)

    def _seen(self) -> list[_Seen]:
        start = f"{self._name}."
        found = []
        for info in self._client.list():
            rank = info.name.removeprefix(start)
            if info.temporary and info.name.startswith(start) and rank.isdecimal():
                # What is no member's claim is refused whatever it has seen.
                forming = info.version == 0 or info.nbytes != _INBOX
                found.append(_Seen(int(rank), info.key, forming))
        return found

    def _agrees(self, other: _Seen) -> bool:
        try:
            segment = self._client.attach(other.key)
        except NotFound:
            return False  # it has left
        try:
            told = _told(segment)
            if told is None:
                raise InvalidArgument(f"BoxGroup: {self._foreign(other.rank)}")
            size, model = told
            if size != self._size:
                raise InvalidArgument(
                    f"BoxGroup: member {ROOT} of '{self._name}' was told of {self._size} members"
                    f" and member {other.rank} of {size}; give every member the same size"
                )
            self._shapes.check_same("BoxGroup", self._name, model, f"member {other.rank}'s")
        except InvalidArgument as error:
            self._refuse(str(error).removeprefix("BoxGroup: "))
            raise
        finally:
            segment.detach()
        return True

    def _refuse(self, said: str) -> None:
        for one in self._seen():
            if one.forming:
                self._write(one.key, {"refused": said})

    def _write(self, key: int, letter: dict[str, str]) -> None:
        data = json.dumps(letter).encode()
        if len(data) > _INBOX:  # names can be long
            short = {"refused": "the members do not agree; see the error of another member"}
            data = json.dumps(short).encode()
        try:
            segment = self._client.attach(key)
        except NotFound:
            return  # it has left
        with contextlib.suppress(NotFound):
            if _told(segment):  # never into what is no member's
                segment.write(np.frombuffer(data.ljust(_INBOX), np.uint8))
        segment.detach()

    def _read_letter(self) -> str | None:
        if self._claim.version == 0:
            return None
        letter = _fields(bytes(self._claim.read(timeout=self._timeout)))
        if "refused" in letter:
            raise FailedPrecondition(f"BoxGroup: {letter['refused']}")
        generation = letter.get("generation")
        if not isinstance(generation, str):
            raise FailedPrecondition(
                f"BoxGroup: '{self._claim.name}' was changed by a client that is no member of"
                f" '{self._name}'; choose another name for the group"
            )
        return generation

    def _foreign(self, rank: int) -> str:
        return (
            f"the box has '{self._name}.{rank}', which is no member's; choose another name than"
            f" '{self._name}' for the group"
        )

    def _absent(self, living: dict[int, _Seen]) -> str:
        ranks = range(self._size)
        absent = [rank for rank in ranks if rank not in living]
        earlier = [rank for rank in ranks if rank in living and not living[rank].forming]
        told = [f"{absent} did not start"] if absent else []
        told += [f"{earlier} are in a group that began earlier"] if earlier else []
        return f"the {self._size} members of '{self._name}': {' and '.join(told)}"


def _fields(text: bytes) -> dict[str, Any]:
    """Parse JSON of another client, as untrusted input: what is no object has no fields."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _told(segment: Segment) -> tuple[int, str] | None:
    """Return the size that a member was told of, and its model; None if it is no member's claim."""
    fields = _fields(segment.description)
    size = fields.pop("size", None)
    if type(size) is not int or not 1 <= size <= MOST_WORKERS or segment.nbytes != _INBOX:
        return None
    return size, json.dumps(fields)


def read_keys(ready: Segment, size: int) -> list[int]:
    """Return the keys of the members, by rank, that the root wrote to `ready`.

    Raises
    ------
    FailedPrecondition
        If they are not those of `size` members.
    """
    keys = _fields(ready.description).get("keys")
    if (
        not isinstance(keys, list)
        or len(keys) != size
        or not all(type(key) is int and 0 <= key < 2**64 for key in keys)
    ):
        raise FailedPrecondition(
            f"BoxGroup: '{ready.name}' has no members of a group; choose another name for the group"
        )
    return keys
