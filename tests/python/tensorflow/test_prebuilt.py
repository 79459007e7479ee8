"""Which plug-in is used where farwrite-tensorflow is installed."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import farwrite as fw
from farwrite.plugin import build, cache, command, prebuilt, recipe, wheel
from tensorflow_site import HASHES, make_site, misfit, record_rows, write_distribution, write_facts

INSTALL = (
    "install the wheel of this release: pip install --force-reinstall --no-deps"
    f" farwrite_tensorflow-{fw.__version__}-*.whl"
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_site(tmp_path, monkeypatch)


def test_one_that_fits_is_used_and_no_compiler_asked(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert build.ensure_built() == site / prebuilt.PACKAGE / cache.LIBRARY
    assert not cache.cache_folder().exists()


def test_the_libraries_on_disk_decide_between_two_distributions(site: Path) -> None:
    others = {name: value + "-gpu" for name, value in HASHES.items()}
    write_distribution(site, "tensorflow", record_rows(others, size=6))
    assert misfit() == ""
    for name in wheel.LIBRARIES:
        (site / "tensorflow" / name).write_bytes(b"longer")
    assert "is for tensorflow-cpu as on PyPI" in misfit()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sources": "0" * 64}, "was built for another Farwrite"),
        ({"tensorflow": {"2.21.1": {}}}, "is for TensorFlow 2.21.1, and 2.21.0 is installed"),
        ({"tensorflow": {"2.21.0": {"tensorflow": {}}}}, "is for tensorflow as on PyPI"),
        ({"tensorflow": 1}, "is damaged"),
        ({"tensorflow": {"2.21.0": ["a list"]}}, "is damaged"),
    ],
)
def test_one_that_does_not_fit_says_why_and_is_not_used(
    site: Path, changes: dict[str, object], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_facts(site, **changes)
    assert reason in misfit()
    assert build.find_built(wheel.find_wheel()) is None
    command.run_info(argparse.Namespace())
    assert reason in capsys.readouterr().out


def test_what_is_built_instead_is_told(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_facts(site, sources="")
    monkeypatch.setattr(build, "_compiled", lambda *_: Path("compiled"))
    assert build.ensure_built() == Path("compiled")
    assert "was built for another Farwrite" in capsys.readouterr().err


@pytest.mark.parametrize("name", [cache.LIBRARY, prebuilt.FACTS])
def test_one_that_lacks_a_file_is_damaged(site: Path, name: str) -> None:
    (site / prebuilt.PACKAGE / name).unlink()
    assert "is damaged" in misfit()
    assert misfit().endswith(INSTALL)


def test_one_that_is_a_checkout_has_no_compiled_plug_in(site: Path) -> None:
    """As `pip install --editable plugin` leaves it."""
    (site / prebuilt.PACKAGE / cache.LIBRARY).unlink()
    (site / prebuilt.PACKAGE / prebuilt.FACTS).unlink()
    assert misfit() == (
        f"the farwrite-tensorflow in {site / prebuilt.PACKAGE} has no compiled plug-in, as in a"
        f" checkout; {INSTALL}"
    )


def test_one_that_was_cut_off_is_damaged(site: Path) -> None:
    (site / prebuilt.PACKAGE / cache.LIBRARY).write_bytes(b"a lib")
    assert "is not the one that was built" in misfit()


@pytest.mark.usefixtures("site")
def test_flags_of_the_user_mean_a_build_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARWRITE_CXXFLAGS", "-g")
    assert "FARWRITE_CXXFLAGS is set" in misfit()


def test_without_the_distribution_there_is_none(site: Path) -> None:
    (site / prebuilt.PACKAGE / "__init__.py").unlink()
    (site / prebuilt.PACKAGE).rename(site / "elsewhere")
    assert prebuilt.find_prebuilt(recipe.recipe(wheel.find_wheel())) is None
