"""Subscriber: reads the versions of a model that a `Publisher` publishes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, SupportsIndex

import numpy as np

from farwrite.arguments import flag, seconds, shown, whole_number
from farwrite.box.beside import in_thread
from farwrite.box.lease import Lease
from farwrite.box.publisher import MARK
from farwrite.box.schema import Schema
from farwrite.box.segment import Segment
from farwrite.box.updates import Watch, wait_async
from farwrite.errors import (
    Cancelled,
    Error,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
)
from farwrite.lifetime.closing import Closing
from farwrite.lifetime.handle import Handle
from farwrite.long_wait import LongWait


class Model(
    Handle,
    elsewhere="pickle model.copy(), or subscribe in the other process: client.subscribe(name)",
):
    """One version of a model, pinned. `Subscriber.latest` creates it.

    A context manager. ``model["w"]`` is a tensor, or a dict or list of tensors, as it was
    published; tuples come as lists. Tensors are read-only NumPy arrays. On one host they are views
    of the server's memory. With ``latest(copy=True)`` they are this process's own, and writable.

    The version stays pinned until the model is closed and every tensor of it is deleted. Copy what
    you keep: see `copy`.

    The constructor is internal: use `Subscriber.latest`.
    """

    def __init__(self, lease: Lease, schema: Schema) -> None:
        self._lease = lease
        self._schema = schema
        self._step = schema.step(lease.data)
        self._tree: Any = None

    @property
    def version(self) -> int:
        """The version; the first one that was published is 1.

        The box counts it. After a restart or a restore the same number may come again with other
        weights, in another `epoch`: key a cache by both.
        """
        return self._lease.version

    @property
    def epoch(self) -> int:
        """The epoch of the version: a number of 64 bits, never 0.

        It is another one after the box was started anew or restored, and from the first model of a
        publisher that took over. Compare it for equality; see `Segment.epoch`.
        """
        return self._lease.epoch

    @property
    def step(self) -> int | None:
        """The step that the publisher gave for this version, or None; see `Publisher.publish`."""
        return self._step

    @property
    def tree(self) -> Any:
        """The whole model: a dict or list of read-only arrays."""
        tree = self._tree  # once: another thread may close the model
        if tree is None:
            tree = self._schema.unpack(self._lease.data)
            self._tree = tree
            if self._lease.ended:
                self._tree = None  # or it would pin the version after a close meanwhile
        return tree

    def __getitem__(self, key: Any) -> Any:
        return self.tree[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tree)

    def __len__(self) -> int:
        return len(self._schema.tree)

    def __contains__(self, key: object) -> bool:
        return key in self.tree

    def keys(self) -> Any:
        """Return the names of a model that is a dict."""
        return self.tree.keys()

    def values(self) -> Any:
        """Return the tensors of a model that is a dict."""
        return self.tree.values()

    def items(self) -> Any:
        """Return the names and tensors of a model that is a dict."""
        return self.tree.items()

    def copy(self) -> Any:
        """Return the model as writable arrays of this process, which outlive the version."""

        def copied(tree: Any) -> Any:
            if isinstance(tree, dict):
                return {key: copied(child) for key, child in tree.items()}
            if isinstance(tree, list):
                return [copied(child) for child in tree]
            return np.array(tree)

        return copied(self.tree)

    def torch(self) -> Any:
        """Return the model as PyTorch tensors, without a copy; for bfloat16 as well.

        They view the same memory as a private, copy-on-write mapping: an optimizer's step or
        BatchNorm in training mode writes this process's own copy of a page. Each call returns
        tensors of their own. The version stays pinned as long as any of them exists.
        ``module.load_state_dict(model.torch())`` copies them.

        Raises
        ------
        Unsupported
            If PyTorch is not installed.
        ResourceExhausted
            If the mapping does not fit into the address space.
        """
        return self._schema.unpack_torch(self._lease.private())

    def close(self) -> None:
        """Give the version back. Closing twice is allowed."""
        self._lease.close()
        self._tree = None

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _facts(self) -> str:
        step = "" if self.step is None else f", step {self.step}"
        return f"at version {self.version}{step}, {self._schema.count()} tensors"

    def _state(self) -> str:
        return self._lease._state()


Newer = Model | tuple[SupportsIndex, SupportsIndex] | None
"""What a reader has: a model, or its epoch and version."""


@dataclass(frozen=True)
class PublisherState:
    """The publisher of a model, as `Subscriber.publisher` finds it."""

    state: Literal["alive", "silent", "gone"]
    """"silent": nothing came from its process for the `detection_time` of the server. It was
    stopped or cut off, and may go on. "gone": it closed, or died."""
    age: float | None
    """Seconds since the newest version was published; None before the first."""


class Subscriber(Closing, elsewhere="subscribe in the other process: client.subscribe(name)"):
    """Reads the versions of a model. `Client.subscribe` creates it.

    Any thread may call any method at any time. A context manager: the end of the ``with`` block
    closes the subscriber; models stay valid.

    The constructor is internal: use `Client.subscribe`.

    Examples
    --------
    >>> import numpy as np
    >>> import farwrite as fw
    >>> with fw.box.serve() as server, fw.box.connect(server.endpoint) as box:
    ...     state = {"w": np.ones((2, 2), "float32"), "b": np.zeros(2, "float32")}
    ...     policy = server.publisher("policy", like=state)
    ...     policy.publish(state)
    ...     with box.subscribe("policy").latest() as model:
    ...         print(model.version, model["w"].sum())
    1
    1 4.0
    """

    def __init__(self, segment: Segment, describe: Callable[[str], Mapping[str, Any]]) -> None:
        self._segment = segment
        self._describe = describe
        self._schema = Schema.parse("subscribe", segment.name, segment.description, segment.nbytes)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._segment.name

    @property
    def version(self) -> int:
        """The newest version; 0 before the first one."""
        return self._segment.version

    def publisher(self) -> PublisherState:
        """Ask the box for the state of the publisher, and for the age of the newest version.

        Raises
        ------
        NotFound
            If the model was freed.
        DeadlineExceeded
            If the box has not answered within the timeout given to `connect`.
        """
        self._segment.native.version()  # refuses once this subscriber is closed
        model = self._describe(self.name)
        age = model["age"] if model["version"] > 0 else None
        try:
            mark = self._describe(self.name + MARK)
        except NotFound:
            return PublisherState("gone", age)
        return PublisherState("silent" if mark["silent"] > 0 else "alive", age)

    def latest(
        self, *, newer_than: Newer = None, timeout: float | None = None, copy: bool = False
    ) -> Model:
        """Pin the newest version. Ctrl-C interrupts the wait.

        On one host nothing is copied. Between hosts the version is read once. While readers hold as
        many other versions as the publisher's `buffers` allow, or the server has no memory for the
        version that comes next, the call waits; a wait for that, or for a first version, of more
        than a second is logged.

        Parameters
        ----------
        newer_than : Model or tuple of int
            The model that the caller has, or its ``(epoch, version)``: wait for a version above it,
            or for one of another epoch. By default any version will do.
        timeout : float or None
            Seconds; None waits for ever.
        copy : bool
            Read the version into memory of this process: the tensors are writable, and no version
            stays pinned. A reader that keeps models for long, or may be stopped, does not take the
            buffers of others then.

        Returns
        -------
        Model
            A context manager. The end of the ``with`` block gives the version back.

        Raises
        ------
        DeadlineExceeded
            If no such version came in time.
        InvalidArgument
            If `newer_than` is a number: it does not say of which epoch.
        ResourceExhausted
            If readers held as many other versions for the whole time, or the server had no memory
            for the version that comes next.
        NotFound
            If the publisher freed the model.
        """
        limit, copied = seconds("latest", timeout), flag("latest", "copy", copy)
        whole = LongWait(limit)
        self.wait(newer_than, limit)
        wait = LongWait(whole.left())  # for a buffer
        naps = _naps(wait)
        while True:
            try:
                return Model(self._newest(copied, wait.left()), self._schema)
            except ResourceExhausted as error:
                nap = next(naps, None)
                if nap is None and not copied:
                    raise ResourceExhausted(self._no_buffer(error)) from None
                if nap is None:
                    raise
                wait.tell(self._no_buffer(error))
            time.sleep(nap)

    def _no_buffer(self, error: ResourceExhausted) -> str:
        return (
            f"latest of {self._segment.place}: {error}; the caller's own models count, and"
            " latest(copy=True) needs no buffer"
        )

    def _newest(self, copy: bool, timeout: float | None) -> Lease:
        if not copy:
            return self._segment.lease(timeout)
        data = np.empty(self._segment.nbytes, np.uint8)
        epoch, version, _, _ = self._segment.native.read(data, 0, False, 0, 0, timeout)
        return Lease(data, epoch, version, self._segment.layout)

    def wait(self, newer_than: Newer = None, timeout: float | None = None) -> tuple[int, int]:
        """Wait as `latest` does, and return epoch and version of the newest. Ctrl-C interrupts it.

        Raises
        ------
        DeadlineExceeded
            If the timeout passed.
        """
        wait = LongWait(seconds("wait", timeout))
        epoch, version = _parsed("wait", newer_than)
        native = self._segment.native
        if epoch:
            found = native.wait(version + 1, epoch, wait.left())
            if found[1] > 0:
                return found
            # A box that was started anew: nothing has published yet.
        return wait.call(lambda left: native.wait(1, 0, left))

    async def wait_async(
        self, newer_than: Newer = None, timeout: float | None = None
    ) -> tuple[int, int]:
        """Wait as `wait` does, without blocking the event loop."""
        wait = LongWait(seconds("wait_async", timeout))
        epoch, version = _parsed("wait_async", newer_than)
        if epoch:
            found = await wait_async(self._segment, version + 1, epoch, wait.left())
            if found[1] > 0:
                return found
        return await wait.call_async(lambda left: wait_async(self._segment, 1, 0, left))

    async def latest_async(
        self, *, newer_than: Newer = None, timeout: float | None = None, copy: bool = False
    ) -> Model:
        """Pin the newest version as `latest` does, without blocking the event loop."""
        import asyncio

        limit, copied = seconds("latest_async", timeout), flag("latest_async", "copy", copy)
        whole = LongWait(limit)
        await self.wait_async(newer_than, limit)
        wait = LongWait(whole.left())  # for a buffer
        naps = _naps(wait)
        while True:
            try:
                newest = await in_thread("latest_async", lambda: self._newest(copied, wait.left()))
                return Model(newest, self._schema)
            except ResourceExhausted as error:
                nap = next(naps, None)
                if nap is None and not copied:
                    raise ResourceExhausted(self._no_buffer(error)) from None
                if nap is None:
                    raise
                wait.tell(self._no_buffer(error))
            await asyncio.sleep(nap)

    def on_version(self, callback: Callable[[int | Error], object]) -> Watch:
        """Call ``callback(version)`` after new versions, and once with the `Error` that ends them.

        See `Segment.on_update`.
        """
        return self._segment.on_update(callback)

    def __iter__(self) -> Iterator[Model]:
        """Yield the newest version, and each time a newer one. A slow reader skips versions.

        A model is closed when the next one is asked for. The iteration ends when the publisher
        frees the model, or this subscriber or its client closes.
        """
        model: Model | None = None
        while True:
            self._segment.native.check_wait()
            try:
                model = self.latest(newer_than=model)
            except _ENDED:
                return
            with model:
                yield model

    def __aiter__(self) -> AsyncIterator[Model]:
        """Iterate as ``for`` does, without blocking the event loop.

        The iteration goes on after a wait that was given up.
        """
        return _Models(self)

    def close(self, timeout: float | None = 1.0) -> None:
        """End the subscription. Models stay valid. Closing twice is allowed.

        Parameters
        ----------
        timeout : float or None
            Not used: closing a subscriber does not wait.
        """
        seconds("close", timeout)
        self._closed = True
        self._segment.detach()

    def _facts(self) -> str:
        return f"of '{self.name}'"


def _naps(wait: LongWait) -> Iterator[float]:
    """Yield how many seconds to sleep before each further try, while there is time."""
    nap = 0.0002
    while (rest := wait.left()) is None or rest > 0:
        yield nap if rest is None else min(nap, rest)
        nap = min(2 * nap, 0.05)


def _parsed(operation: str, newer_than: Newer) -> tuple[int, int]:
    """Return epoch and version; (0, 0) for any version that was published."""
    if newer_than is None:
        return 0, 0
    if isinstance(newer_than, Model):
        return newer_than.epoch, newer_than.version
    if not isinstance(newer_than, tuple) or len(newer_than) != 2:
        raise InvalidArgument(
            f"{operation}: newer_than {shown(newer_than)} does not say which version of which"
            " epoch; give the Model that you have, or its (model.epoch, model.version)"
        )
    return (
        whole_number(operation, "the epoch of newer_than", newer_than[0], 1, 2**64 - 1),
        whole_number(operation, "the version of newer_than", newer_than[1], 0, 2**64 - 2),
    )


class _Models(AsyncIterator[Model]):
    """The newest version, and each time a newer one."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        self._model: Model | None = None

    async def __anext__(self) -> Model:
        if self._model is not None:
            self._model.close()
        self._subscriber._segment.native.check_wait()
        try:
            self._model = await self._subscriber.latest_async(newer_than=self._model)
        except _ENDED:
            raise StopAsyncIteration from None
        return self._model


_ENDED = (NotFound, Cancelled, FailedPrecondition)
