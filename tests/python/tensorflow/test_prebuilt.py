"""Which plug-in is used where farwrite-tensorflow is installed. The libraries are no libraries."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

import pytest

from farwrite.plugin import build, cache, command, prebuilt, recipe, wheel

HASHES = {"libtensorflow_cc.so.2": "sha256=cc", "libtensorflow_framework.so.2": "sha256=framework"}


def record_rows(hashes: dict[str, str], size: int = 5) -> str:
    return "".join(f"tensorflow/{name},{value},{size}\n" for name, value in hashes.items())


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site-packages with TensorFlow 2.21.0 and a plug-in that fits it."""
    site = tmp_path / "site"
    tensorflow = site / "tensorflow"
    (tensorflow / "include" / "tensorflow").mkdir(parents=True)
    (tensorflow / "__init__.py").write_text("raise ImportError('finding it must not import it')")
    for name in wheel.LIBRARIES:
        (tensorflow / name).write_bytes(b"bytes")
    write_distribution(site, "tensorflow_cpu", record_rows(HASHES))
    package = site / prebuilt.PACKAGE
    package.mkdir()
    (package / "__init__.py").touch()
    (package / cache.LIBRARY).write_bytes(b"a library")
    for name in ("tensorflow", prebuilt.PACKAGE):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("FARWRITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FARWRITE_CXXFLAGS", raising=False)
    write_facts(site)
    return site


def write_distribution(site: Path, name: str, record: str) -> None:
    folder = site / f"{name}-2.21.0.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.21.0\n")
    (folder / "RECORD").write_text(record)


def write_facts(site: Path, **changes: object) -> None:
    sources = recipe.recipe(wheel.find_wheel()).source_digest
    library = hashlib.sha256((site / prebuilt.PACKAGE / cache.LIBRARY).read_bytes()).hexdigest()
    known = {"2.21.0": {"tensorflow-cpu": HASHES}}
    facts = {"sources": sources, "library": library, "tensorflow": known, **changes}
    (site / prebuilt.PACKAGE / prebuilt.FACTS).write_text(json.dumps(facts))


def misfit() -> str:
    found = prebuilt.find_prebuilt(recipe.recipe(wheel.find_wheel()))
    assert found is not None
    return found.misfit


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
    assert "install it again" in misfit()


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
