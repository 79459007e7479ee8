"""TensorFlow over Farwrite: an eager client whose cluster changes; tensors go from task to task.

Whatever members a cluster has, what a step brings is right, or the step fails with an error of
TensorFlow that names a reason, within a limit; and a step of tasks that all run does not fail.
"""

from __future__ import annotations

import atexit
import importlib.util
import itertools
import json
import os
import random
import select
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from farwrite_bench.cluster.process import free_ports
from random_programs.actors import temporary_folder
from random_programs.program import World as AnyWorld
from random_programs.program import choose, fault, need, step

sys.path.append(str(Path(__file__).parents[1] / "tensorflow"))
from cluster import FARWRITE, FORKERS, Task, forker, started

LIMIT = 60.0
"""Seconds that a call may take: a bound, and no measure."""
SIZES = (1, 3, 1000, 300_000)
MOST_MEMBERS = 3
MOST_HELD = 12
PROTOCOL = FARWRITE
FAIL_FAST = {"GRPC_FAIL_FAST": "true"}
"""Without it, gRPC waits for a task that has gone, in stock TensorFlow as here."""
GONE = ("UnavailableError", "AbortedError", "InvalidArgumentError", "FailedPreconditionError")
"""Errors of a call to a task that has gone: the last two where it runs anew by then."""


@dataclass(frozen=True)
class Held:
    """A tensor of the client on a task: start + step * index."""

    task: int
    start: float
    step: float
    size: int


class Member:
    """A server, and what the model knows of it."""

    alive = True

    def __init__(self, folder: Path, port: int, number: int) -> None:
        self.address = f"127.0.0.1:{port}"
        log = folder / f"task{number}.log"
        self.task = Task({"worker": [self.address]}, "worker", 0, PROTOCOL, FAIL_FAST, log)
        self.task.wait_until_up()

    def kill(self) -> None:
        self.alive = False
        self.task.kill()

    def end(self) -> None:
        """End it normally, which shows that it has not crashed."""
        process = self.task.process
        assert process.poll() is None, self.task.log.read_text()[-3000:]
        process.communicate(timeout=LIMIT)
        assert process.returncode == 0, self.task.log.read_text()[-3000:]


class Client:
    """The client's process."""

    def __init__(self, folder: Path, number: int) -> None:
        self.log = folder / f"client{number}.log"
        with self.log.open("ab") as output:
            self.process = started("obeying.py", (PROTOCOL, '{"worker": []}'), FAIL_FAST, output)

    def tell(self, call: str, **arguments: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([call, arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        ready = select.select([self.process.stdout], [], [], LIMIT)[0]
        assert ready, f"no answer in {LIMIT:g} s"
        line = self.process.stdout.readline()
        assert line, f"the client has ended:\n{self.log.read_text()[-3000:]}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> None:
        self.process.communicate(timeout=LIMIT)
        assert self.process.returncode == 0, self.log.read_text()[-3000:]


class World(AnyWorld):
    @staticmethod
    def is_built() -> bool:
        return importlib.util.find_spec("tensorflow") is not None

    def __init__(self, fabric: str, draw: random.Random, stack: ExitStack) -> None:
        super().__init__(fabric, draw, stack)
        stack.enter_context(mock.patch.dict(os.environ, {"FARWRITE_FABRICS": fabric}))
        if (
            frozenset(FAIL_FAST.items()) not in FORKERS
        ):  # TensorFlow takes 4 s to be imported: once for all programs
            opened = ExitStack()
            opened.enter_context(forker(**FAIL_FAST))
            atexit.register(opened.close)
        self.folder = Path(temporary_folder(stack))
        self.numbers = itertools.count(1)
        self.members: dict[int, Member] = {}
        self.hides = draw.random() < 0.3
        stack.callback(self._kill_all)
        for task in range(1, draw.choice([2, 2, 3]) + 1):
            self._start(task)
        self._connect()

    def _kill_all(self) -> None:
        for member in self.members.values():
            if member.task.process.poll() is None:
                member.task.signal(signal.SIGCONT)
                member.kill()
        if self.client.process.poll() is None:
            self.client.kill()

    def _start(self, task: int, port: int | None = None) -> None:
        port = port or free_ports(1)[0]
        self.members[task] = Member(self.folder, port, next(self.numbers))

    def _connect(self) -> None:
        self.client = Client(self.folder, next(self.numbers))
        self.held: dict[int, Held] = {}
        self._change()

    def _change(self) -> None:
        """Tell the client of the members. TensorFlow asks all of them."""
        tasks = {task: member.address for task, member in self.members.items()}
        give_up = time.monotonic() + LIMIT
        while True:
            self.client.tell("cluster", tasks=tasks, hides=self.hides)
            answer = self.client.answer()
            if "right" in answer:
                return
            # gRPC does not try an address again at once that refused it.
            assert answer["error"] == "UnavailableError" and time.monotonic() < give_up, answer
            time.sleep(0.5)

    def _call(self, call: str, *tasks: int, **arguments: Any) -> bool:
        """Let the client call; whether it was right. It may fail if one of the tasks is gone."""
        self.client.tell(call, **arguments)
        return self._answered(call, *tasks)

    def _answered(self, call: str, *tasks: int) -> bool:
        answer = self.client.answer()
        if "right" in answer:
            assert not answer["right"], f"{call}: {answer['right']} elements are wrong"
            return True
        says = f"{call} with {tasks}: {answer['error']}: {answer['says']}"
        assert not all(task == 0 or self.members[task].alive for task in tasks), says
        assert answer["error"] in GONE, says
        return False

    def _new(self, call: str, held: Held, *tasks: int, **arguments: Any) -> None:
        """Let the client make a tensor, from others on these tasks."""
        number = next(self.numbers)
        if self._call(call, held.task, *tasks, number=number, task=held.task, **arguments):
            self.held[number] = held

    def _gone(self) -> set[int]:
        """Members that were killed."""
        return {task for task, member in self.members.items() if not member.alive}

    def _tasks(self) -> list[int]:
        return [0, *(task for task, member in self.members.items() if member.alive)]

    def _there(self) -> list[tuple[int, Held]]:
        """Tensors on tasks that run. Those of others are asked for by `fetch` alone: stock
        TensorFlow, too, waits without limit where another task computes with one."""
        tasks = self._tasks()
        return [(number, held) for number, held in self.held.items() if held.task in tasks]

    # --- Tensors.

    @step(6)
    def make(self, draw: random.Random) -> None:
        need(len(self.held) < MOST_HELD)
        held = Held(
            choose(draw, self._tasks()), draw.randrange(100), draw.randrange(5), draw.choice(SIZES)
        )
        self._new("make", held, start=held.start, step=held.step, size=held.size)

    @step(8)
    def move(self, draw: random.Random) -> None:
        need(len(self.held) < MOST_HELD)
        source, was = choose(draw, self._there())
        add, task = draw.randrange(100), choose(draw, self._tasks())
        held = Held(task, was.start + add, was.step, was.size)
        self._new("move", held, was.task, source=source, add=add)

    @step(4)
    def double(self, draw: random.Random) -> None:
        need(len(self.held) < MOST_HELD)
        source, was = choose(draw, self._there())
        need(was.start < 2**40 and was.step < 2**20)
        held = Held(choose(draw, self._tasks()), 2 * was.start, 2 * was.step, was.size)
        self._new("double", held, was.task, source=source)

    @step(6)
    def sum(self, draw: random.Random) -> None:
        """Add in a function of several tasks."""
        need(len(self.held) < MOST_HELD)
        left, one = choose(draw, self._there())
        need(one.start < 2**40 and one.step < 2**20)
        right, other = choose(draw, ((n, h) for n, h in self._there() if h.size == one.size))
        held = Held(
            choose(draw, self._tasks()), one.start + other.start, one.step + other.step, one.size
        )
        self._new("sum", held, one.task, other.task, left=left, right=right)

    @step(6)
    def fetch(self, draw: random.Random) -> None:
        number, held = choose(draw, self.held.items())
        self._fetch(number, held)

    def _fetch(self, number: int, held: Held) -> None:
        facts = {"start": held.start, "step": held.step, "size": held.size}
        self._call("fetch", held.task, number=number, **facts)

    @step(3)
    def drop(self, draw: random.Random) -> None:
        self._drop(draw.sample(sorted(self.held), draw.randint(0, len(self.held))))

    def _drop(self, numbers: list[int]) -> None:
        assert self._call("drop", numbers=numbers)
        for number in numbers:
            del self.held[number]

    # --- Members.

    @step(3)
    def join(self, draw: random.Random) -> None:
        need(len(self.members) < MOST_MEMBERS and not self._gone())
        self._start(next(n for n in itertools.count(1) if n not in self.members))
        self._change()

    @step(3)
    def leave(self, draw: random.Random) -> None:
        need(len(self.members) > 1)
        task = choose(draw, self._gone() or self.members)
        need(self._gone() <= {task})
        self._forget(task)
        member = self.members.pop(task)
        self._change()
        if member.alive:
            member.end()

    def _forget(self, task: int) -> None:
        self._drop([number for number, held in self.held.items() if held.task == task])

    @step(3)
    def replace(self, draw: random.Random) -> None:
        """Put another server in the place of a task, or one that starts anew at its address."""
        task = choose(draw, self._gone() or self.members)
        need(self._gone() <= {task})
        self._replace(task, draw.random() < 0.5)

    def _replace(self, task: int, same_address: bool) -> None:
        self._forget(task)
        member = self.members[task]
        if member.alive and not same_address:
            self._start(task)
            self._change()
            return member.end()
        if member.alive:
            member.end()
        port = int(member.address.rpartition(":")[2]) if same_address else None
        self._start(task, port)
        self._change()

    # --- Faults.

    @fault(2)
    def kill(self, draw: random.Random) -> None:
        task = choose(draw, (n for n, member in self.members.items() if member.alive))
        self.members[task].kill()

    @fault(2)
    def kill_in_a_call(self, draw: random.Random) -> None:
        """Kill a task while a tensor comes from it."""
        number, held = choose(draw, ((n, h) for n, h in self.held.items() if h.task != 0))
        need(self.members[held.task].alive)
        facts = {"start": held.start, "step": held.step, "size": held.size}
        self.client.tell("fetch", number=number, **facts)
        time.sleep(draw.choice([0.0, 0.001, 0.01]))
        self.members[held.task].kill()
        self._answered("fetch", held.task)

    @fault(2)
    def stop(self, draw: random.Random) -> None:
        """Stop a task for a while: what needs it waits, and is right."""
        number, held = choose(draw, ((n, h) for n, h in self.held.items() if h.task != 0))
        member = self.members[held.task]
        need(member.alive)
        member.task.stop()
        facts = {"start": held.start, "step": held.step, "size": held.size}
        self.client.tell("fetch", number=number, **facts)
        time.sleep(draw.choice([0.0, 0.1, 0.5]))
        member.task.signal(signal.SIGCONT)
        self._answered("fetch", held.task)

    @fault()
    def kill_client(self, draw: random.Random) -> None:
        need(not self._gone())
        self.client.kill()
        self._connect()

    def at_rest(self) -> None:
        gone = self._gone()
        for task in gone:
            self._forget(task)
            self._start(task)
        if gone:
            self._change()
        tasks = [0, *self.members, 0]
        self._new("make", Held(0, 1, 1, SIZES[-1]), start=1, step=1, size=SIZES[-1])
        for source, target in itertools.pairwise(tasks):
            last = max(self.held)
            held = Held(target, self.held[last].start + 1, 1, SIZES[-1])
            self._new("move", held, source, source=last, add=1)
        for number, held in self.held.items():
            self._fetch(number, held)
        self.client.tell("stats")
        counted = self.client.answer()["right"]
        assert counted["received"] > 0, "no tensor came to the client over Farwrite"
        for member in self.members.values():
            assert member.task.stats()["grpc_recv_tensor_calls"] == 0, "tensors went over gRPC"
        self.client.end()
        for member in self.members.values():
            member.end()
