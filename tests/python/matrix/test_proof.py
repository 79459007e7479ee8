"""What `prove.py` takes back, which no change may leave behind unseen."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from matrix.functions import TABLE
from matrix.mended import MENDED as IN_PYTHON
from matrix.mended import Mended
from matrix.mended_core import MENDED as IN_THE_CORE
from matrix.prove import ROOT, words_of

pytestmark = pytest.mark.checkout

NOT_OF_PYTHON = ("farwrite_fault_tests", "pytest")


@pytest.mark.parametrize("fault", IN_PYTHON + IN_THE_CORE, ids=lambda fault: fault.name)
def test_a_mend_that_the_proof_takes_back_is_there(fault: Mended) -> None:
    assert (ROOT / fault.file).read_text().count(fault.today) == 1
    for command in fault.commands:
        if shlex.split(command)[0] not in NOT_OF_PYTHON:
            program = next(word for word in words_of(command) if word.endswith(".py"))
            assert Path(program).is_file()
            assert [word for word in shlex.split(command)[1:] if not is_known(word)] == []


def is_known(word: str) -> bool:
    """Whether a word of a command stands for a fabric, a fault or a call; or for a point of one."""
    owner, dot, name = word.partition(".")
    if not dot or owner not in TABLE:
        return True
    return name.partition(".")[0] in TABLE[owner]
