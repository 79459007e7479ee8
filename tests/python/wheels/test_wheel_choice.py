"""Which Python builds which wheel, and the error if the machine lacks that Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_wheels import WHEELS, Interpreter, WheelError, choose, interpreters

NATIVE, STABLE = WHEELS[:2]


def of(*minors: int) -> list[Interpreter]:
    return [Interpreter(Path(f"/python3.{one}"), (3, one), Path("/none")) for one in minors]


def test_the_oldest_python_that_fits_builds_a_wheel() -> None:
    assert choose(NATIVE, of(11, 12, 13)).version == (3, 11)
    assert choose(STABLE, of(11, 13, 14)).version == (3, 13)


@pytest.mark.parametrize(("wheel", "minors"), [(NATIVE, (12,)), (STABLE, (11, 15))])
def test_a_wheel_without_a_python_is_an_error_that_names_what_to_install(
    wheel: object, minors: tuple[int, ...]
) -> None:
    with pytest.raises(WheelError, match=r"needs CPython 3\.1.*this machine has 3\..*PYTHONS"):
        choose(wheel, of(*minors))  # type: ignore[arg-type]


def test_pythons_names_those_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONS", "/nowhere/python3.11")
    assert interpreters() == []
