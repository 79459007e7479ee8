"""Every call with every nasty argument is done as asked, or refused by an error of Farwrite's."""

from __future__ import annotations

import pytest

from matrix.arguments_program import pairs
from matrix.arrived import ARRIVED
from matrix.command_line import run
from matrix.functions import FUNCTIONS, MODULES
from matrix.parameters import BY_CALL, is_internal
from matrix.test_matrix import holds_no_handle


def test_every_parameter_of_every_call_has_its_values() -> None:
    names = {pair.name for pair in pairs("")}  # a parameter that has none fails in there
    assert len(names) > 300
    assert names >= set(ARRIVED)
    assert names >= set(BY_CALL)


def test_every_function_and_constructor_of_the_packages_has_a_row() -> None:
    for owner, module in MODULES.items():
        public = {
            name
            for name in module.__all__
            if callable(entry := getattr(module, name))
            and not is_internal(entry)
            and not (isinstance(entry, type) and (holds_no_handle(entry) or is_base(entry)))
        }
        assert public == set(FUNCTIONS[owner])


def is_base(kind: type) -> bool:
    """Whether nothing makes objects of the class itself."""
    return bool(getattr(kind, "__abstractmethods__", None))


@pytest.mark.parametrize("fabric", ["shm", pytest.param("tcp", marks=pytest.mark.slow)])
def test_every_nasty_argument_is_used_as_it_is_or_refused(fabric: str) -> None:
    assert run("arguments_program.py", fabric) == "survivor fine\n"
