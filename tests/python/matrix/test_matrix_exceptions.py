"""An exception at any place in any call leaves nothing behind, and the call works again."""

from __future__ import annotations

import pytest

from matrix.command_line import run

# One place in so many: some in each run of the check, and all in a few nights.
SHARES = ["1/100", pytest.param("1/4", marks=pytest.mark.nightly)]


@pytest.mark.parametrize("fabric", ["shm", pytest.param("tcp", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("share", SHARES)
def test_an_exception_at_any_place_in_any_call_leaves_nothing_behind(
    share: str, fabric: str
) -> None:
    said = run("exceptions_program.py", fabric, timeout=3600, TEST_SHARE=share)
    assert said == "survivor fine\n"
