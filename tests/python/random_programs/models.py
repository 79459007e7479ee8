"""Published models: a reader sees whole versions, and they never go back within an epoch.

Each tensor of a model is filled with a number of its own, which is also the step. A reader that
finds two numbers in one model has seen a mix of two versions.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import zlib
from typing import Any

import numpy as np

import farwrite as fw
from farwrite import box as boxes
from random_programs.actors import PATIENCE, SHORT, Here, Tally, There, expect, new_tally, until
from random_programs.program import World as AnyWorld
from random_programs.program import choose, fault, need, step

OPTIONS: dict[str, Any] = {"segment_bytes": 16 << 20}
NAME = "model"
LARGE = 200_000
WAYS = ("latest", "latest_async", "copy", "iterate", "async for")

Seen = tuple[int, int, int]
"""Epoch, version and step of a model."""


def model_of(step: int) -> Any:
    """A model whose tensors are full of a number."""
    return {
        "large": np.full(LARGE, step, "float64"),
        "layers": [np.full((7, 3), step, "int32"), np.full((), step, "float32")],
        "empty": np.zeros(0, "int8"),
    }


def seen(model: Any) -> Seen:
    """Check that a model is of one version."""
    tree = model.tree
    parts = [tree["large"], *tree["layers"]]
    numbers = {int(part.flat[0]) for part in parts} | {model.step}
    assert len(numbers) == 1, f"version {model.version} is a mix of {numbers}"
    assert all((part == model.step).all() for part in parts), f"{model.version} is a mix"
    return model.epoch, model.version, model.step


# What processes do: functions of their state.


def serve(state: Any, fabric: str) -> str:
    state.kept["server"] = boxes.serve(memory="512M", pool="32M", fabrics=[fabric], **OPTIONS)
    return str(state.kept["server"].endpoint)


def connect(state: Any, endpoint: str, fabric: str) -> None:
    finish(state)
    client = boxes.connect(endpoint, timeout=PATIENCE, fabrics=[fabric], **OPTIONS)
    state.kept["client"] = client


def finish(state: Any) -> None:
    for name in ("subscriber", "publisher", "client"):
        if (kept := state.kept.pop(name, None)) is not None:
            kept.close()


def open_publisher(state: Any, takeover: Any, of_server: bool) -> str:
    parent = state.kept["server" if of_server else "client"]
    try:
        state.kept["publisher"] = parent.publisher(NAME, model_of(0), takeover=takeover)
    except fw.Error as error:
        return type(error).__name__
    return ""


def close_publisher(state: Any) -> None:
    state.kept.pop("publisher").close()


def publish(state: Any, step: int) -> tuple[int, int] | str:
    """Publish, and overwrite the model at once. Returns epoch and version."""
    publisher, model = state.kept["publisher"], model_of(step)
    try:
        version = publisher.publish(model, step=step)
    except fw.Error as error:
        return type(error).__name__
    for array in [model["large"], *model["layers"]]:
        array[...] = -1
    return publisher.epoch, version


def publish_many(state: Any, first: int, count: int, path: str) -> str:
    """tally[0] is the step that is being published, and tally[1] the one that was last."""
    tally = Tally(path)
    try:
        for step in range(first, first + count):
            tally[0] = step
            state.kept["publisher"].publish(model_of(step), step=step)
            tally[1] = step
    except fw.Error as error:
        return type(error).__name__
    finally:
        tally.close()
    return ""


def latest(state: Any, way: str, newer_than: Any, keep: bool) -> Seen | str:
    """Take a version in one of several ways."""
    if "subscriber" not in state.kept:
        state.kept["subscriber"] = state.kept["client"].subscribe(NAME, PATIENCE)
    subscriber = state.kept["subscriber"]
    options = {"newer_than": newer_than, "timeout": PATIENCE}

    async def first() -> Any:
        async for model in subscriber:
            return seen(model)

    try:
        if way == "latest_async":
            model = asyncio.run(subscriber.latest_async(**options))
        elif way == "iterate":
            for model in subscriber:  # closes it when it goes on or ends
                return seen(model)
        elif way == "async for":
            return asyncio.run(first())  # type: ignore[no-any-return]
        else:
            model = subscriber.latest(copy=way == "copy", **options)
    except fw.Error as error:
        return type(error).__name__
    found = seen(model)
    if way == "copy":
        tensor = model["large"]
        tensor[...] = -1  # this process's own
        assert seen(subscriber.latest(timeout=PATIENCE))
    elif keep:
        kept = model["large"]
        state.kept.setdefault("models", []).append((kept, zlib.crc32(kept.tobytes())))
    model.close()
    return found


def follow(state: Any, path: str, last: int) -> list[Seen]:
    """Read every version that is available until a step."""
    if "subscriber" not in state.kept:
        state.kept["subscriber"] = state.kept["client"].subscribe(NAME, PATIENCE)
    models: list[Seen] = []
    newest = None
    while not models or models[-1][2] < last:
        with state.kept["subscriber"].latest(newer_than=newest, timeout=PATIENCE) as model:
            models.append(seen(model))
        newest = models[-1][:2]
    return models


def changed_models(state: Any) -> int:
    """How many tensors that are kept are not any more what they were."""
    kept = state.kept.get("models", [])
    return sum(zlib.crc32(tensor.tobytes()) != before for tensor, before in kept)


def drop_models(state: Any) -> None:
    state.kept.pop("models", None)


def publisher_state(state: Any) -> str:
    if "subscriber" not in state.kept:
        state.kept["subscriber"] = state.kept["client"].subscribe(NAME, PATIENCE)
    return str(state.kept["subscriber"].publisher().state)


class World(AnyWorld):
    def __init__(self, fabric: str, draw: random.Random, stack: contextlib.ExitStack) -> None:
        super().__init__(fabric, draw, stack)
        self.link = stack.enter_context(fw.Device())
        self.tally, self.path = new_tally(stack)
        # This process serves, and publishes or reads as well.
        self.here = Here()
        self.endpoint = serve(self.here, fabric)
        stack.callback(self.here.kept["server"].close)
        stack.callback(self.here.kept.pop, "models", None)
        stack.callback(finish, self.here)
        connect(self.here, self.endpoint, fabric)
        self.others = [self._process() for _ in range(draw.choice([2, 3]))]
        self.owner: Any = None
        """The process whose publisher has the name."""
        self.newest: Seen | None = None
        self.steps = 0
        self.fresh_epoch = False
        """Whether the next version begins an epoch."""
        self.kept = 0

    def _process(self) -> There:
        there = There(self.link, self.stack)
        there.run(connect, self.endpoint, self.fabric)
        return there

    def _actors(self) -> list[Any]:
        return [actor for actor in [self.here, *self.others] if actor.runs]

    def _reader(self, draw: random.Random, there: bool = False) -> Any:
        need(self.newest is not None)
        return choose(draw, (one for one in self._actors() if not there or one is not self.here))

    def _published(self, step: int, epoch: int, version: int) -> None:
        """Check the numbers of a version that was acknowledged."""
        if self.newest is not None:
            before = self.newest
            assert version == before[1] + 1, f"version {version} follows {before[1]}"
            if self.fresh_epoch:
                assert epoch != before[0], "a takeover began no epoch"
            else:
                assert epoch == before[0], "an epoch began without a takeover"
        else:
            assert version == 1, f"the first version is {version}"
        self.fresh_epoch = False
        self.newest = epoch, version, step

    @step(4)
    def open(self, draw: random.Random) -> None:
        actor = choose(draw, self._actors())
        takeover = draw.choice([False, True, True, "force"])
        of_server = actor is self.here and draw.random() < 0.7
        need("publisher" not in actor.kept if actor is self.here else True)
        found = actor.run(open_publisher, takeover, of_server)
        living = self.owner is not None and takeover != "force"
        if living or (self.newest is not None and not takeover):
            expect(found, "AlreadyExists", of=f"a publisher with takeover={takeover}")
            return
        expect(found, "", of=f"a publisher with takeover={takeover}")
        before, self.owner = self.owner, actor
        self.fresh_epoch = self.newest is not None
        if before is not None and before is not actor:
            found = before.run(publish, -1)
            assert found == "FailedPrecondition", f"a publisher that was fenced off: {found}"
            before.run(close_publisher)

    @step(10)
    def publish(self, draw: random.Random) -> None:
        need(self.owner is not None and self.owner.runs)
        self.steps += 1
        found = self.owner.run(publish, self.steps)
        assert not isinstance(found, str), f"publish: {found}"
        self._published(self.steps, *found)

    @step(10)
    def latest(self, draw: random.Random) -> None:
        reader = self._reader(draw)
        keep = draw.random() < 0.3 and self.kept < 2
        self.kept += keep
        way = draw.choice(WAYS)
        found = reader.run(latest, way, None, keep)
        assert found == self.newest, f"{way} found {found}, not {self.newest}"

    @step(3)
    def newer_than(self, draw: random.Random) -> None:
        """Wait in one process for what another one publishes."""
        reader = self._reader(draw, there=True)
        need(self.owner is not None and self.owner.runs and self.owner is not reader)
        assert self.newest is not None
        reader.start(
            latest, draw.choice(["latest", "latest_async", "copy"]), self.newest[:2], False
        )
        self.steps += 1
        found = self.owner.run(publish, self.steps)
        assert not isinstance(found, str), f"publish: {found}"
        self._published(self.steps, *found)
        found = reader.result()
        assert found == self.newest, f"a wait found {found}, not {self.newest}"

    @step(5)
    def follow(self, draw: random.Random) -> None:
        """Read in all processes while one publishes."""
        need(self.newest is not None and self.owner is not None and self.owner.runs)
        readers = [one for one in self.others if one.runs and one is not self.owner]
        first, count = self.steps + 1, draw.randint(1, 25)
        self.steps += count
        for reader in readers:
            reader.start(follow, self.path, self.steps)
        expect(self.owner.run(publish_many, first, count, self.path), "", of="publish")
        self._many(first, count)
        for reader in readers:
            self._rising(reader.result())

    def _many(self, first: int, count: int) -> None:
        """Count versions that were published without a look at their numbers."""
        assert self.newest is not None
        if count == 0:
            return
        found = self.here.run(latest, "latest", None, False)
        assert not isinstance(found, str), f"latest: {found}"
        epoch, version, step = found
        assert version == self.newest[1] + count, f"{count} versions after {self.newest}: {found}"
        assert step == first + count - 1, f"step {step} is the newest"
        if self.fresh_epoch:
            assert epoch != self.newest[0], "a takeover began no epoch"
        self.fresh_epoch, self.newest = False, found

    def _rising(self, models: list[Seen]) -> None:
        for before, after in itertools.pairwise(models):
            assert after[0] != before[0] or after[1] > before[1], f"{after} came after {before}"
            assert after[2] > before[2], f"{after} came after {before}"

    @step(2)
    def close(self, draw: random.Random) -> None:
        need(self.owner is not None and self.owner.runs)
        self.owner.run(close_publisher)
        self.owner = None

    @step(3)
    def look_at_kept(self, draw: random.Random) -> None:
        for actor in self._actors():
            assert actor.run(changed_models) == 0, "tensors of a kept model have changed"

    @step(2)
    def drop(self, draw: random.Random) -> None:
        for actor in self._actors():
            actor.run(drop_models)
        self.kept = 0

    @step(2)
    def ask(self, draw: random.Random) -> None:
        reader = self._reader(draw)
        states = ("gone",) if self.owner is None else ("alive",)
        if self.soon_silent and states == ("alive",):
            states = ("alive", "silent")  # a loaded machine may delay it
        found = reader.run(publisher_state)
        assert found in states, f"the publisher is {found}, not {states}"

    # --- Faults.

    def _replace(self, killed: There) -> None:
        self.others[self.others.index(killed)] = self._process()

    @fault()
    def kill_publisher(self, draw: random.Random) -> None:
        need(self.owner is not None and self.owner is not self.here and self.owner.runs)
        self.owner.kill()
        self._gone()

    def _gone(self) -> None:
        """Wait until the box has given the name of a dead publisher back."""
        if self.newest is not None:
            until(lambda: publisher_state(self.here) == "gone", "the publisher counts as gone")
        else:
            marks = self.here.kept["client"]
            until(lambda: NAME + ".publisher" not in [one.name for one in marks.list()],
                  "the publisher's mark is gone")  # fmt: skip
        self._replace(self.owner)
        self.owner = None

    @fault()
    def kill_while_it_publishes(self, draw: random.Random) -> None:
        """The last version is the one that was acknowledged, or the one under way."""
        need(self.owner is not None and self.owner is not self.here and self.owner.runs)
        need(self.newest is not None)
        assert self.newest is not None
        first = self.steps + 1
        self.tally[0] = self.tally[1] = self.steps
        readers = [one for one in self.others if one.runs and one is not self.owner]
        enough = self.steps + draw.randint(0, 12)
        for reader in readers:
            reader.start(follow, self.path, enough)
        self.owner.start(publish_many, first, 100_000, self.path)
        until(lambda: self.tally[1] >= enough, "some versions are published")
        self.owner.kill()
        self._gone()
        for reader in readers:
            self._rising(reader.result())
        found = self.here.run(latest, "latest", None, False)
        assert not isinstance(found, str), f"latest: {found}"
        begun, done = self.tally[0], self.tally[1]
        assert done <= found[2] <= begun, f"{found}; {done} was acknowledged, {begun} begun"
        self._many(first, found[2] - first + 1)
        self.steps = begun

    @fault()
    def stop_publisher(self, draw: random.Random) -> None:
        """Take over from a publisher that was stopped: it is fenced off when it goes on."""
        need(self.owner is not None and self.owner is not self.here and self.owner.runs)
        need("publisher" not in self.here.kept)
        stopped = self.owner
        self.tally[0] = self.tally[1] = self.steps
        many = draw.random() < 0.5
        if many:
            stopped.start(publish_many, self.steps + 1, 100_000, self.path)
            until(lambda: self.tally[1] > self.tally[0] - 2 and self.tally[0] > self.steps,
                  "it publishes")  # fmt: skip
        stopped.stop()
        expect(self.here.run(open_publisher, True, False), "AlreadyExists",
               of="a takeover from one that was stopped")  # fmt: skip
        expect(self.here.run(open_publisher, "force", draw.random() < 0.5), "",
               of="a takeover by force")  # fmt: skip
        self.owner = self.here
        if many:
            # What it had begun may be a version, from before the mark was freed.
            found = self.here.kept["publisher"].version
            before = 0 if self.newest is None else self.newest[1]
            if found > before:
                self.newest = self.here.run(latest, "latest", None, False)
            self.steps = self.tally[0]
        self.fresh_epoch = self.newest is not None
        self.publish(draw)
        stopped.go_on()
        if many:
            expect(stopped.result(), "FailedPrecondition", of="the publisher that was stopped")
        else:
            found = stopped.run(publish, -1)
            assert found == "FailedPrecondition", f"a publisher that was fenced off: {found}"
        stopped.run(close_publisher)
        assert self.here.run(latest, "latest", None, False) == self.newest

    @fault()
    def stop_reader(self, draw: random.Random) -> None:
        """Readers that are stopped keep nothing from publishing."""
        need(self.newest is not None and self.owner is not None)
        reader = choose(draw, (one for one in self.others if one.runs and one is not self.owner))
        need(self.owner.runs)
        first, count = self.steps + 1, draw.randint(5, 20)
        self.steps += count
        reader.start(follow, self.path, self.steps)
        reader.stop()
        expect(self.owner.run(publish_many, first, count, self.path), "", of="publish")
        self._many(first, count)
        reader.go_on()
        self._rising(reader.result())

    @fault()
    def kill_reader(self, draw: random.Random) -> None:
        reader = self._reader(draw, there=True)
        need(reader is not self.owner)
        reader.kill()
        self._replace(reader)

    @fault()
    def close_client(self, draw: random.Random) -> None:
        """A process leaves in order, with its publisher if it has one, and comes again."""
        actor = choose(draw, self._actors())
        actor.run(connect, self.endpoint, self.fabric)
        if actor is self.owner:
            self.owner = None

    @fault()
    def free(self, draw: random.Random) -> None:
        """Free the model: readers end, and the next publisher begins anew."""
        need(self.owner is not None and self.owner.runs)
        self.owner.run(free)
        self.owner, self.newest, self.fresh_epoch = None, None, False
        for actor in self._actors():
            actor.run(end_subscriber)

    def at_rest(self) -> None:
        self.look_at_kept(self.draw)
        if self.newest is not None:
            for actor in self._actors():
                found = actor.run(latest, "latest", None, False)
                assert found == self.newest, f"{found} at rest, not {self.newest}"
        for other in self.others:
            other.run(drop_models)
            other.run(finish)


def free(state: Any) -> None:
    state.kept.pop("publisher").free()


def end_subscriber(state: Any) -> None:
    """Look at the end of what was freed."""
    subscriber = state.kept.pop("subscriber", None)
    if subscriber is None:
        return
    try:
        subscriber.latest(timeout=SHORT)
    except fw.NotFound:
        subscriber.close()
        return
    raise AssertionError("a model that was freed can be read")
