"""A simulation of work that shares resources: links, and the processors of machines.

Work flows at a rate, as long as its amount lasts. All work that flows at the same time shares the
resources that it needs in max-min fairness: all rates are raised together, each as a share of its
limit, and what needs a resource that has nothing left stays where it is.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_NOTHING = 1e-12
"""What rounding leaves and nothing should wait for: less than this share of a capacity or of an
amount, and what flows in less than this part of a second."""


@dataclass(eq=False)
class Work:
    """A piece of work.

    Parameters
    ----------
    amount : float
        How much there is of it: bytes, or seconds of one thread. 0 ends as soon as it may begin.
    limit : float
        The highest rate, in amounts a second: of one stream, or of one thread, which is 1.
    needs : mapping
        How much of which resource a unit of the amount takes: bytes of a link, or seconds of a
        processor.
    delay : float
        Seconds between the end of what it waits for and its own begin. It needs nothing meanwhile.
    queue : object, optional
        Work of one queue flows one after the other, in the order in which it could begin: what one
        connection carries.
    """

    amount: float
    limit: float = 1.0
    needs: Mapping[str, float] = field(default_factory=dict)
    delay: float = 0.0
    queue: object = None
    ended: float = math.nan
    """When it ended; no number before."""
    waits_for: int = 0
    next: list[Work] = field(default_factory=list)

    def after(self, *earlier: Work) -> Work:
        """Let it begin when all of `earlier` have ended; return it."""
        for each in earlier:
            each.next.append(self)
        self.waits_for += len(earlier)
        return self


class Flow:
    """A run of the simulation.

    Parameters
    ----------
    capacities : mapping
        How much of each resource there is in a second: bytes of a link, or the processors of a
        machine.
    """

    def __init__(self, capacities: Mapping[str, float]) -> None:
        self._capacities = capacities
        self._used = dict.fromkeys(capacities, 0.0)
        self.now = 0.0
        self._numbers = itertools.count()
        self._later: list[tuple[float, int, Work]] = []
        self._queues: dict[object, list[Work]] = {}
        self._flowing: dict[Work, float] = {}

    def run(self, works: Sequence[Work]) -> float:
        """Run all of `works` and what follows them, and return when the last one ended.

        Parameters
        ----------
        works : sequence of Work
            Those that wait for nothing. They begin now.
        """
        for work in works:
            self._ready(work)
        while self._later or self._flowing:
            self._step()
        return self.now

    def shares(self) -> dict[str, float]:
        """Return how much of each resource the works that ended used, as a share of the time."""
        return {
            name: self._used[name] / (capacity * self.now) if self.now else 0.0
            for name, capacity in self._capacities.items()
        }

    def _step(self) -> None:
        rates = self._rates()
        ends = min(
            (left / rates[work] for work, left in self._flowing.items() if rates[work] > 0),
            default=math.inf,
        )
        until = min(self.now + ends, self._later[0][0] if self._later else math.inf)
        assert until < math.inf, "work that can never flow: a resource of capacity 0"
        spent, self.now = until - self.now, until
        for work, rate in rates.items():
            self._flowing[work] -= rate * spent
        for work, rate in rates.items():
            if self._flowing[work] <= _NOTHING * (rate + work.amount):
                del self._flowing[work]
                self._end(work)
        while self._later and self._later[0][0] <= self.now:
            self._begin(heapq.heappop(self._later)[2])

    def _rates(self) -> dict[Work, float]:
        """Share the resources among all work that flows."""
        left = dict(self._capacities)
        rates = dict.fromkeys(self._flowing, 0.0)
        raised = list(self._flowing)
        level = 0.0
        while raised:
            growth: dict[str, float] = defaultdict(float)
            for work in raised:
                for resource, need in work.needs.items():
                    growth[resource] += need * work.limit
            room = [(left[name] / rate, name) for name, rate in growth.items() if rate > 0]
            more, scarce = min([(1.0 - level, ""), *room])
            for resource, rate in growth.items():
                left[resource] = max(left[resource] - more * rate, 0.0)
            level += more
            for work in raised:
                rates[work] = level * work.limit
            if not scarce:
                break
            empty = {each for each in growth if left[each] <= _NOTHING * self._capacities[each]}
            empty.add(scarce)
            raised = [work for work in raised if not empty & work.needs.keys()]
        return rates

    def _ready(self, work: Work) -> None:
        if work.delay > 0:
            heapq.heappush(self._later, (self.now + work.delay, next(self._numbers), work))
        else:
            self._begin(work)

    def _begin(self, work: Work) -> None:
        if work.queue is not None:
            line = self._queues.setdefault(work.queue, [])
            line.append(work)
            if line[0] is not work:
                return
        self._flow(work)

    def _flow(self, work: Work) -> None:
        if work.amount > 0:
            self._flowing[work] = work.amount
        else:
            self._end(work)

    def _end(self, work: Work) -> None:
        work.ended = self.now
        for resource, need in work.needs.items():
            self._used[resource] += need * work.amount
        if work.queue is not None:
            line = self._queues[work.queue]
            line.pop(0)
            if line:
                self._flow(line[0])
        for follower in work.next:
            follower.waits_for -= 1
            if follower.waits_for == 0:
                self._ready(follower)
