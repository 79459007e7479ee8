"""Which Python builds which wheel, and the error if the machine lacks that Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_wheels import WHEELS, Interpreter, WheelError, choose, interpreters, runs_on

NATIVE, STABLE = WHEELS[:2]
(FREE,) = (wheel for wheel in WHEELS if wheel.free_threaded)


def of(*minors: int, free: bool = False) -> list[Interpreter]:
    return [Interpreter(Path(f"/python3.{one}"), (3, one), Path("/none"), free) for one in minors]


def test_the_oldest_python_that_fits_builds_a_wheel() -> None:
    assert choose(NATIVE, of(11, 12, 13)).version == (3, 11)
    assert choose(STABLE, of(11, 13, 14)).version == (3, 13)


def test_a_python_without_the_gil_builds_and_runs_its_own_wheel_alone() -> None:
    free = of(13, free=True)
    assert choose(FREE, of(11, 13) + free) == free[0]
    assert choose(STABLE, free + of(14)).version == (3, 14)
    assert [wheel.name for wheel in WHEELS if runs_on(wheel, free[0])] == ["cp313t-x86_64"]
    with pytest.raises(WheelError, match=r"3\.13t, without the GIL.* has 3\.13; .*build_python"):
        choose(FREE, of(13))


@pytest.mark.parametrize(("wheel", "minors"), [(NATIVE, (12,)), (STABLE, (11, 15))])
def test_a_wheel_without_a_python_is_an_error_that_names_what_to_install(
    wheel: object, minors: tuple[int, ...]
) -> None:
    with pytest.raises(WheelError, match=r"needs CPython 3\.1.*this machine has 3\..*PYTHONS"):
        choose(wheel, of(*minors))  # type: ignore[arg-type]


def test_pythons_names_those_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONS", "/nowhere/python3.11")
    assert interpreters() == []
