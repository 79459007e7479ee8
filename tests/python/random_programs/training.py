"""Training helpers: sums are exact, a count is a step that was made, and members agree or fail.

Weights are whole numbers, or sums of few powers of two, so that float64 holds every result.
"""

from __future__ import annotations

import contextlib
import random
from typing import Any

import numpy as np

import farwrite as fw
from farwrite import box as boxes
from farwrite.box import training
from random_programs.actors import PATIENCE, Here, Tally, There, expect, new_tally, until
from random_programs.program import World as AnyWorld
from random_programs.program import choose, fault, need, step

SIZE = 1000
MEMBERS = 2
"""Members of a group, and workers: their averages are exact."""
RATE = 0.5
MOST_ELASTIC = 20
"""Each exchange takes a bit of the mantissa."""


def arrays(value: float) -> list[Any]:
    return [np.full(SIZE, value, "float64"), np.full((3, 2), value, "float64")]


def value_of(tensors: list[Any]) -> float:
    """The value that all elements have."""
    values = {float(value) for tensor in tensors for value in np.unique(tensor)}
    assert len(values) == 1, f"elements differ: {values}"
    return values.pop()


# What workers do: functions of their state.


def connect(state: Any, endpoint: str, fabric: str) -> None:
    leave(state)
    state.kept["client"] = boxes.connect(endpoint, timeout=PATIENCE, fabrics=[fabric])


def leave(state: Any) -> None:
    for name in ("sgd", "elastic", "group", "client"):
        if (kept := state.kept.pop(name, None)) is not None:
            with contextlib.suppress(fw.FailedPrecondition):
                kept.close()


def begin_sgd(state: Any, name: str, worker: int, takeover: bool) -> tuple[int, float] | str:
    weights = arrays(0)
    try:
        state.kept["sgd"] = training.AsyncSGD(
            state.kept["client"], name, weights, 1.0, 1 << 20, worker=worker, workers=MEMBERS,
            timeout=PATIENCE, takeover=takeover,
        )  # fmt: skip
    except fw.Error as error:
        return type(error).__name__
    return state.kept["sgd"].steps, value_of(weights)


def step_sgd(state: Any, gradient: int) -> float:
    weights = arrays(0)
    state.kept["sgd"].step(arrays(gradient), weights)
    return value_of(weights)


def error_of_a_step(state: Any) -> str:
    try:
        step_sgd(state, 0)
    except fw.Error as error:
        return type(error).__name__
    return ""


def many_steps(state: Any, count: int, path: str, at: int) -> None:
    """Take steps with gradients of -1. tally[at] counts those that are made."""
    tally, weights, gradients = Tally(path), arrays(0), arrays(-1)
    for _ in range(count):
        state.kept["sgd"].step(gradients, weights)
        tally[at] += 1
    tally.close()


def close_sgd(state: Any) -> None:
    state.kept.pop("sgd").close()


def begin_elastic(state: Any, name: str, takeover: bool, mine: float) -> float | str:
    weights = arrays(mine)
    try:
        state.kept["elastic"] = training.SEASGD(
            state.kept["client"], name, weights, RATE, timeout=PATIENCE, takeover=takeover
        )
    except fw.Error as error:
        return type(error).__name__
    return value_of(weights)


def step_elastic(state: Any, mine: float) -> float:
    """Exchange. Returns the worker's weights."""
    weights = arrays(mine)
    state.kept["elastic"].step(weights)
    state.kept["elastic"].flush()
    return value_of(weights)


def read_elastic(state: Any) -> float:
    weights = arrays(0)
    state.kept["elastic"].read(weights)
    return value_of(weights)


def close_elastic(state: Any) -> None:
    state.kept.pop("elastic").close()


def join(state: Any, name: str, rank: int) -> None:
    state.kept["group"] = training.BoxGroup(
        state.kept["client"], name, arrays(0), rank, MEMBERS, timeout=PATIENCE
    )


def group_call(state: Any, call: str, values: list[float]) -> tuple[list[float], str]:
    """Make calls of a group. Returns what came of each, and the error that ended them."""
    group, found = state.kept["group"], []
    try:
        for value in values:
            tensors = arrays(value)
            if call == "agree":
                found.append(float(group.agree(value > 0)))
                continue
            getattr(group, call)(tensors)
            found.append(value_of(tensors))
    except fw.Error as error:
        return found, type(error).__name__
    return found, ""


def close_group(state: Any) -> None:
    state.kept.pop("group").close()


class World(AnyWorld):
    def __init__(self, fabric: str, draw: random.Random, stack: contextlib.ExitStack) -> None:
        super().__init__(fabric, draw, stack)
        self.link = stack.enter_context(fw.Device())
        self.tally, self.path = new_tally(stack)
        self.server = stack.enter_context(boxes.serve(memory="256M", pool="16M", fabrics=[fabric]))
        self.here = Here()
        stack.callback(leave, self.here)
        connect(self.here, self.server.endpoint, fabric)
        self.workers = [self._worker() for _ in range(MEMBERS)]
        self.lives = 0
        self._new_training()
        self.shared: float | None = None
        """The shared weights of SEASGD."""
        self.elastic: dict[There, float] = {}
        self.exchanges = 0
        self.elastic_left = False
        self.grouped = False

    def _worker(self) -> There:
        there = There(self.link, self.stack)
        there.run(connect, self.server.endpoint, self.fabric)
        return there

    def _new_training(self) -> None:
        self.lives += 1
        self.sgd_name = f"sgd {self.lives}"
        self.weights = 0.0
        self.steps = [0] * MEMBERS
        self.working: set[int] = set()
        self.begun = False

    # --- AsyncSGD.

    @step(5)
    def begin_sgd(self, draw: random.Random) -> None:
        worker = choose(draw, (at for at in range(MEMBERS) if at not in self.working))
        takeover = draw.random() < 0.5
        found = self.workers[worker].run(begin_sgd, self.sgd_name, worker, takeover)
        if self.begun and not self.working and not takeover:
            assert found == "AlreadyExists", f"workers that have all ended, no takeover: {found}"
            return
        self.begun = True
        self.working.add(worker)
        assert found == (self.steps[worker], self.weights), f"{found} of worker {worker}"

    @step(8)
    def step_sgd(self, draw: random.Random) -> None:
        worker, gradient = choose(draw, sorted(self.working)), draw.randint(-5, 5)
        self.steps[worker] += 1
        self.weights -= gradient
        found = self.workers[worker].run(step_sgd, gradient)
        assert found == self.weights, f"the weights are {found}, not {self.weights}"

    @step(5)
    def race(self, draw: random.Random) -> None:
        """All workers take steps at the same time."""
        need(self.working)
        count = draw.randint(1, 30)
        for worker in sorted(self.working):
            self.workers[worker].start(many_steps, count, self.path, worker)
        for worker in sorted(self.working):
            self.workers[worker].result()
            self.steps[worker] += count
            self.weights += count
        worker = min(self.working)
        self.steps[worker] += 1
        assert self.workers[worker].run(step_sgd, 0) == self.weights, "steps are lost or doubled"

    @step(1)
    def close_sgd(self, draw: random.Random) -> None:
        """End the training; its workers have finished."""
        need(self.working)
        for worker in sorted(self.working):
            self.workers[worker].run(close_sgd)
        worker = min(self.working)
        found = self.workers[worker].run(begin_sgd, self.sgd_name, worker, True)
        assert found == "FailedPrecondition", f"a worker that has finished: {found}"
        self._new_training()

    # --- SEASGD.

    @step(4)
    def begin_elastic(self, draw: random.Random) -> None:
        worker = choose(draw, (one for one in self.workers if one not in self.elastic))
        mine, takeover = float(draw.randint(-8, 8)), draw.random() < 0.5
        need(self.exchanges < MOST_ELASTIC)
        found = worker.run(begin_elastic, "elastic", takeover, mine)
        if self.shared is not None and not self.elastic and not takeover:
            assert found == "AlreadyExists", f"workers that have all ended, no takeover: {found}"
            return
        if self.shared is None:
            self.shared = mine
        assert found == self.shared, f"a worker begins with {found}, not {self.shared}"
        self.elastic[worker] = found

    @step(6)
    def step_elastic(self, draw: random.Random) -> None:
        worker = choose(draw, self.elastic)
        need(self.exchanges < MOST_ELASTIC)
        self.exchanges += 1
        assert self.shared is not None
        mine = self.elastic[worker] + draw.randint(-4, 4)
        delta = RATE * (mine - self.shared)
        self.shared += delta
        self.elastic[worker] = mine - delta
        found = worker.run(step_elastic, mine)
        assert found == mine - delta, f"a worker has {found}, not {mine - delta}"

    @step(3)
    def read_elastic(self, draw: random.Random) -> None:
        found = choose(draw, self.elastic).run(read_elastic)
        assert found == self.shared, f"the shared weights are {found}, not {self.shared}"

    @step(1)
    def close_elastic(self, draw: random.Random) -> None:
        worker = choose(draw, self.elastic)
        worker.run(close_elastic)
        del self.elastic[worker]

    # --- BoxGroup.

    @step(5)
    def join(self, draw: random.Random) -> None:
        need(not self.grouped)
        for rank, worker in enumerate(self.workers):
            worker.start(join, "group", rank)
        for worker in self.workers:
            worker.result()
        self.grouped = True

    def _call(self, draw: random.Random, count: int) -> tuple[str, list[list[float]], list[float]]:
        """Draw calls of a group: the values of each member, and what comes of them."""
        call = draw.choice(["all_reduce", "broadcast", "agree"])
        values = [[float(draw.randint(-9, 9)) for _ in range(count)] for _ in self.workers]
        if call == "all_reduce":
            expected = [sum(each) / MEMBERS for each in zip(*values, strict=True)]
        else:
            expected = [float(one > 0) if call == "agree" else one for one in values[0]]
        return call, values, expected

    @step(6)
    def call(self, draw: random.Random) -> None:
        need(self.grouped)
        call, values, expected = self._call(draw, draw.randint(1, 6))
        for worker, mine in zip(self.workers, values, strict=True):
            worker.start(group_call, call, mine)
        for worker in self.workers:
            found, ended = worker.result()
            expect(ended, "", of=call)
            assert found == expected, f"{call}: {found}, not {expected}"

    @step(1)
    def close_group(self, draw: random.Random) -> None:
        need(self.grouped)
        for worker in self.workers:
            worker.run(close_group)
        self.grouped = False

    # --- Faults.

    def _replace(self, at: int) -> None:
        """Start a process in place of one that was killed, once the box knows of its end."""
        killed, box = self.workers[at], self.here.kept["client"]
        claims = {f"{self.sgd_name}/steps.{at}", f"group.{at}"}
        if self.working == {at}:
            claims.add(f"{self.sgd_name}.workers")
        if set(self.elastic) == {killed}:
            claims.add("elastic.workers")
        until(lambda: claims.isdisjoint(one.name for one in box.list()), f"{claims} are free")
        self.working.discard(at)
        self.elastic.pop(killed, None)
        if self.grouped:
            for worker in self.workers:
                if worker is not killed:
                    found, ended = worker.run(group_call, "all_reduce", [1.0])
                    assert not found, "a group goes on without a member"
                    expect(ended, "FailedPrecondition", of="a call of a group that lost a member")
                    worker.run(close_group)
            self.grouped = False
        self.workers[at] = self._worker()

    @fault()
    def kill(self, draw: random.Random) -> None:
        at = draw.randrange(MEMBERS)
        self.workers[at].kill()
        self._replace(at)

    @fault()
    def kill_in_steps(self, draw: random.Random) -> None:
        """A step that was made counts; the one under way may count, and so may its gradients."""
        at = choose(draw, sorted(self.working))
        self.tally[at] = 0
        enough = draw.randint(0, 30)
        self.workers[at].start(many_steps, 100_000, self.path, at)
        until(lambda: self.tally[at] >= enough, "some steps are made")
        self.workers[at].kill()
        self._replace(at)
        box = self.here.kept["client"]
        counts = box.attach(f"{self.sgd_name}/steps").read()
        counted = int(counts[at]) - self.steps[at]
        weights = float(np.unique(box.attach(self.sgd_name).read()).item())
        added = weights - self.weights
        made = self.tally[at]
        assert made <= counted <= made + 1, f"{counted} steps count, and {made} were made"
        assert counted <= added <= counted + 1, f"gradients of {added} steps, and {counted} count"
        self.steps[at] += counted
        self.weights = weights

    @fault()
    def kill_in_a_call(self, draw: random.Random) -> None:
        """What succeeds in a member is right, whatever becomes of the other one."""
        need(self.grouped)
        call, values, expected = self._call(draw, 300)
        at = draw.randrange(MEMBERS)
        for worker, mine in zip(self.workers, values, strict=True):
            worker.start(group_call, call, mine)
        draws = draw.randint(0, 3000)
        for _ in range(draws):
            self.tally[15] += 1  # some time passes
        self.workers[at].kill()
        found, ended = self.workers[1 - at].result()
        assert found == expected[: len(found)], f"{call}: {found}, not {expected}"
        expect(ended, "", "FailedPrecondition", of=f"{call} with a member that died")
        self._replace(at)

    @fault()
    def stop(self, draw: random.Random) -> None:
        """Stop a worker in the middle of steps: nothing is lost."""
        at = choose(draw, sorted(self.working))
        count = draw.randint(1, 30)
        self.workers[at].start(many_steps, count, self.path, at)
        self.workers[at].stop()
        for other in sorted(self.working - {at}):
            self.workers[other].run(step_sgd, 2)
            self.steps[other] += 1
            self.weights -= 2
        self.workers[at].go_on()
        self.workers[at].result()
        self.steps[at] += count + 1
        self.weights += count
        assert self.workers[at].run(step_sgd, 0) == self.weights, "steps are lost or doubled"

    @fault()
    def take_a_number(self, draw: random.Random) -> None:
        """Let another process be a worker that is stopped: the first one counts no more."""
        at = choose(draw, sorted(self.working))
        first = self.workers[at]
        need(not self.grouped and first not in self.elastic)
        first.stop()
        self.here.kept["client"].attach(f"{self.sgd_name}/steps.{at}", 0).free()
        self.workers[at] = self._worker()
        found = self.workers[at].run(begin_sgd, self.sgd_name, at, False)
        assert found == (self.steps[at], self.weights), f"{found} of worker {at}"
        first.go_on()
        ended = first.run(error_of_a_step)
        expect(ended, "FailedPrecondition", of="a step of a worker that was replaced")
        first.run(close_sgd)
        found = self.workers[at].run(step_sgd, 0)
        self.steps[at] += 1
        assert found == self.weights, f"the weights are {found}, not {self.weights}"
        first.run(leave)
        first.kill()

    def at_rest(self) -> None:
        for worker in self.workers:
            worker.run(leave)
        # Temporary segments go with their clients.
        box = self.here.kept["client"]
        kept = {"elastic"} | {f"sgd {life}" for life in range(self.lives + 1)}
        until(lambda: all(one.name.removesuffix("/steps") in kept for one in box.list()),
              "only weights and counts are left in the box")  # fmt: skip
