"""Blocking calls of programs with an event loop, each made in a thread beside the loop's."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from farwrite.awaited import Awaited, Result
from farwrite.errors import ResourceExhausted

if TYPE_CHECKING:
    from concurrent.futures import Future

_BRIEF_S = 0.1
"""How long an event loop may stand still for an answer that nearly always comes at once."""


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
    _start(operation, call, awaited.succeed, awaited.fail)
    return await awaited.future


def in_loop() -> bool:
    """Whether an event loop runs in this thread, and stands still while a call of it blocks."""
    asyncio = sys.modules.get("asyncio")  # not imported, it runs none
    return asyncio is not None and asyncio._get_running_loop() is not None


def begin(operation: str, call: Callable[[], Result]) -> Future[Result]:
    """Begin a call that blocks, and wait for its end, but briefly.

    Nearly always it has ended then. If not, the server does not answer, and the future ends later.

    Raises
    ------
    ResourceExhausted
        If no thread can be started.
    """
    from concurrent.futures import Future, wait

    future: Future[Result] = Future()
    _start(operation, call, future.set_result, future.set_exception)
    wait([future], _BRIEF_S)
    return future


def _start(
    operation: str,
    call: Callable[[], Result],
    succeed: Callable[[Result], None],
    fail: Callable[[BaseException], None],
) -> None:
    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            fail(error)
        else:
            succeed(result)

    try:
        threading.Thread(target=run, name="farwrite-read", daemon=True).start()
    except RuntimeError as error:
        if "new thread" not in str(error):  # of a signal handler
            raise
        raise ResourceExhausted(
            f"{operation}: no thread could be started ({error}); end other threads, or raise the"
            " limits (ulimit -u, ulimit -v)"
        ) from None
