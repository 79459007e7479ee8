"""The processes of one way: servers and workers, or one process for all of the graph."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from farwrite.errors import Internal
from farwrite_bench.cluster.group import Group, Take, Turn
from farwrite_bench.cluster.peers import peers
from farwrite_bench.cluster.process import Task, free_addresses
from farwrite_bench.cluster.seat import Seat, Threads
from farwrite_bench.train.plan import Case, Check, Close, Create, Open, Way

THREADS = Threads()
"""TensorFlow's defaults: one thread per core."""
MALLOC = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(2**26),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""glibc's best settings for large tensors, for every process of every way: memory is kept and used
again, in huge pages. By default a tensor above 32 MiB is mapped anew in each step, and its page
faults take longer than its computation."""
STEP_SECONDS = 600.0
"""How long an answer may take: the steps of a turn, of the largest network on a slow machine."""


@dataclass(frozen=True)
class Cluster:
    """The running processes of one way."""

    way: Way
    workers: list[Task]
    servers: list[Task]

    def open(self, case: Case) -> None:
        """Build the case's graph in the workers that run steps, and create its variables."""
        sessions = [None] if case.sync else list(range(case.workers))
        for number, worker in enumerate(self._taking(case)):
            here = sessions if self.way.is_local else sessions[number : number + 1]
            worker.send(Open(case, tuple(here)))
        self._answers(case)
        self._chief(Create())

    def take(self, case: Case, count: int) -> Turn:
        """Take `count` steps in every session.

        Returns
        -------
        Turn
            The seconds of each step, of the session that took longest.
        """
        before = self._group().look()
        for worker in self._taking(case):
            worker.send(Take(count))
        answers = [answer for answer in self._answers(case) if isinstance(answer, list)]
        taken: list[list[float]] = [seconds for answer in answers for seconds in answer]
        return Turn(max(taken, key=sum), before, self._group().look())

    def first_elements(self) -> list[float]:
        """Return one element of each variable."""
        answer = self._chief(Check())
        if not isinstance(answer, list):
            raise Internal(f"bench: unexpected answer of a worker: {answer!r}; report this")
        return answer

    def close(self, case: Case) -> None:
        """End the sessions, and free the variables."""
        for number, worker in reversed(list(enumerate(self._taking(case)))):
            worker.send(Close(destroys=number == 0))
            worker.receive(STEP_SECONDS)

    def _taking(self, case: Case) -> list[Task]:
        alone = case.sync or self.way.is_local
        return self.workers[:1] if alone else self.workers[: case.workers]

    def _answers(self, case: Case) -> list[object]:
        return [worker.receive(STEP_SECONDS) for worker in self._taking(case)]

    def _chief(self, order: object) -> object:
        self.workers[0].send(order)
        return self.workers[0].receive(STEP_SECONDS)

    def _group(self) -> Group:
        return Group(self.workers[0], [*self.servers, *self.workers[1:]])


def start(way: Way, servers: int, workers: int, logs: Path, stack: contextlib.ExitStack) -> Cluster:
    """Start the processes of a way, which end with `stack`, and wait until they are ready."""
    forced = {} if way.fabric is None else {"FARWRITE_FABRICS": way.fabric}
    jobs = {"worker": 1} if way.is_local else {"ps": servers, "worker": workers}
    free = iter(free_addresses(sum(jobs.values())))
    addresses = {job: [next(free) for _ in range(count)] for job, count in jobs.items()}
    environment = {
        **MALLOC,
        **way.transport.environment,
        **forced,
        **peers(way.transport, addresses),
    }

    def task(job: str, index: int, module: str) -> Task:
        log = logs / f"{way.key.replace(' ', '-')}-{job}{index}.log"
        made = stack.enter_context(Task(f"{way.key} {job}:{index}", module, environment, log))
        made.send(Seat(addresses, job, index, way.transport, THREADS))
        return made

    # The workers end first, while their servers still answer.
    serving = [
        task("ps", index, "farwrite_bench.cluster.server") for index in range(jobs.get("ps", 0))
    ]
    working = [
        task("worker", index, "farwrite_bench.train.worker") for index in range(jobs["worker"])
    ]
    for each in (*serving, *working):
        each.receive()
    return Cluster(way, working, serving)
