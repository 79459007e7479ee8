"""Blocking calls of asyncio tasks, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from farwrite.awaited import Awaited, Result
from farwrite.errors import ResourceExhausted


async def in_thread(operation: str, call: Callable[[], Result]) -> Result:
    """Make a call that blocks, without blocking the event loop.

    Not in asyncio's pool, which has few threads: a server that does not answer would keep the
    program's other calls from them. What comes of the call of a cancelled task is dropped.

    Raises
    ------
    ResourceExhausted
        If no thread can be started.
    """
    awaited: Awaited[Result] = Awaited()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            awaited.fail(error)
        else:
            awaited.succeed(result)

    try:
        threading.Thread(target=run, name="farwrite-read", daemon=True).start()
    except RuntimeError as error:
        if "new thread" not in str(error):  # of a signal handler
            raise
        raise ResourceExhausted(
            f"{operation}: no thread could be started ({error}); end other threads, or raise the"
            " limits (ulimit -u, ulimit -v)"
        ) from None
    return await awaited.future
