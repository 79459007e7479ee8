"""An event loop of asyncio whose pool has no thread: the thread that wants one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Executor
from typing import Any, NoReturn, TypeVar

Result = TypeVar("Result")


class NoThreads(Executor):
    """In the place of asyncio's pool."""

    def submit(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("a thread of the pool was asked for")


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run the coroutine to its end, for a minute at most."""

    async def without_threads() -> Result:
        asyncio.get_running_loop()._default_executor = NoThreads()  # type: ignore[attr-defined]
        return await asyncio.wait_for(coroutine, 60)

    return asyncio.run(without_threads())
