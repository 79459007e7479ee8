"""A future that another thread settles."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from farwrite.awaited import Awaited
from farwrite.errors import StatusCode

FAILURES: dict[str, Callable[[Awaited[None]], None]] = {
    "fail": lambda awaited: awaited.fail(RuntimeError("lost")),
    "end": lambda awaited: awaited.end(None, StatusCode.CANCELLED, "lost"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_nothing_is_logged_of_an_error_for_which_nobody_waits_any_more(failure: str) -> None:
    logged: list[dict[str, Any]] = []

    async def abandon() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: logged.append(context))
        awaited: Awaited[None] = Awaited()
        FAILURES[failure](awaited)
        await asyncio.sleep(0)
        assert awaited.future.done()
        del awaited
        gc.collect()

    asyncio.run(abandon())
    assert logged == []


@pytest.mark.parametrize("failure", FAILURES)
def test_who_waits_gets_the_error(failure: str) -> None:
    async def wait() -> None:
        awaited: Awaited[None] = Awaited()
        FAILURES[failure](awaited)
        await awaited.future

    with pytest.raises(Exception, match=r"^lost$"):
        asyncio.run(wait())
