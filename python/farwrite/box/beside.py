"""Blocking calls of asyncio tasks, each in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from farwrite.errors import ResourceExhausted

Result = TypeVar("Result")


async def in_thread(operation: str, call: Callable[[], Result]) -> Result:
    """Make a call that blocks, without blocking the event loop.

    Not in asyncio's pool, which has few threads: a server that does not answer would keep the
    program's other calls from them. What comes of the call of a cancelled task is dropped.

    Raises
    ------
    ResourceExhausted
        If no thread can be started.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def succeed(result: Result) -> None:
        if not outcome.done():
            outcome.set_result(result)

    def fail(error: BaseException) -> None:
        if not outcome.done():
            outcome.set_exception(error)

    def run() -> None:
        # The loop may have been closed meanwhile: nothing awaits then.
        with contextlib.suppress(RuntimeError):
            try:
                result = call()
            except BaseException as error:
                loop.call_soon_threadsafe(fail, error)
            else:
                loop.call_soon_threadsafe(succeed, result)

    try:
        threading.Thread(target=run, name="farwrite-read", daemon=True).start()
    except RuntimeError as error:
        if "new thread" not in str(error):  # of a signal handler
            raise
        raise ResourceExhausted(
            f"{operation}: no thread could be started ({error}); end other threads, or raise the"
            " limits (ulimit -u, ulimit -v)"
        ) from None
    return await outcome
