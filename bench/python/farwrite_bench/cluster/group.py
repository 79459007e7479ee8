"""The processes of one way to run a program: its client, and the servers that the client uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from farwrite.errors import Internal
from farwrite_bench.cluster.control import Control
from farwrite_bench.cluster.readings import Readings, spent
from farwrite_bench.cluster.seat import Look


@dataclass(frozen=True)
class Take:
    """A request to the client: run `count` steps, and answer with the seconds of each."""

    count: int
    what: str = "step"
    """The kind of step, where the client has several."""


class RefusedError(Exception):
    """The client's answer where TensorFlow refused an order, after which the client goes on."""


@dataclass(frozen=True)
class Turn:
    """The steps of one turn, with the readings of all processes before and after them."""

    seconds: list[float]
    before: list[Readings]
    after: list[Readings]
    busy_seconds: float = 0.0
    """Seconds of processors that the whole machine worked meanwhile; 0 where nothing looked."""


@dataclass(frozen=True)
class Group:
    """A client that answers `Take` and `Look`, and its servers."""

    client: Control
    servers: Sequence[Control] = ()

    def ask(self, order: object) -> object:
        """Give the client an order, and return its answer.

        Raises
        ------
        RefusedError
            If that is the answer.
        """
        answer = self.client.ask(order)
        if isinstance(answer, RefusedError):
            raise answer
        return answer

    def seconds(self, order: Take) -> list[float]:
        """Let the client run steps, and return the seconds of each."""
        answer = self.ask(order)
        if not isinstance(answer, list):
            raise Internal(f"bench: unexpected answer of the client: {answer!r}; report this")
        return answer

    def turn(self, order: Take) -> Turn:
        """Take the readings, run steps, and take the readings again."""
        before = self.look()
        seconds = self.seconds(order)
        return Turn(seconds, before, self.look())

    def look(self) -> list[Readings]:
        """Take the readings of all processes."""
        answers = [task.ask(Look()) for task in (*self.servers, self.client)]
        readings = [answer for answer in answers if isinstance(answer, Readings)]
        if len(readings) != len(answers):
            raise Internal(f"bench: unexpected answers of tasks: {answers!r}; report this")
        return readings


def in_turn(keys: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield every key in every round, with the round's number. Each round begins one key later."""
    for number in range(rounds if keys else 0):
        first = number % len(keys)
        for key in (*keys[first:], *keys[:first]):
            yield number, key


def totals(turns: Sequence[Turn]) -> dict[str, float]:
    """Add up `spent` over the turns."""
    each = [spent(turn.before, turn.after) for turn in turns]
    return {name: sum(total.get(name, 0) for total in each) for name in set().union(*each)}
