"""Unusual installations of TensorFlow: the compiled plug-in is used, or a line says why not."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from farwrite.errors import FailedPrecondition, Unsupported
from farwrite.plugin import build, prebuilt, recipe, wheel
from tensorflow_site import HASHES, make_site, misfit, record_rows, write_distribution, write_facts

NO_HASH = "".join(f"tensorflow/{name},,\n" for name in wheel.LIBRARIES)
BOTH = " and ".join(wheel.LIBRARIES)
UNLISTED = f"no RECORD in {{site}} lists {BOTH}"
NOT_TOLD = f"RECORD in {{site}} has no hash or no size of {BOTH}"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_site(tmp_path, monkeypatch)


def facts_of(site: Path) -> Path:
    return site / "tensorflow_cpu-2.21.0.dist-info"


def remove_record(site: Path) -> None:
    (facts_of(site) / "RECORD").unlink()


def write_record(content: str | bytes) -> Callable[[Path], object]:
    text = content.encode() if isinstance(content, str) else content
    return lambda site: (facts_of(site) / "RECORD").write_bytes(text)


def patch_libraries(site: Path) -> None:
    """As Nix does."""
    for name in wheel.LIBRARIES:
        (site / "tensorflow" / name).write_bytes(b"other bytes")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (remove_record, UNLISTED),
        (write_record(""), UNLISTED),
        (write_record("tensorflow/__init__.py,sha256=a,1\n"), UNLISTED),
        (write_record(b"\xff\xfe,,\n"), UNLISTED),
        (write_record('"tensorflow/lib'), UNLISTED),
        (write_record(NO_HASH), NOT_TOLD),
        (write_record(NO_HASH.replace(",,", "")), NOT_TOLD),
        (write_record(record_rows(HASHES).replace(",5", ",")), NOT_TOLD),
        (patch_libraries, f"{BOTH} changed after the installation"),
    ],
    ids=[
        *("no_record", "empty", "without_the_libraries", "not_utf_8", "cut_off", "no_hashes"),
        *("paths_alone", "no_sizes", "patched"),
    ],
)
def test_where_record_does_not_tell_the_plug_in_is_compiled_and_a_line_says_why(
    site: Path,
    change: Callable[[Path], object],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(site)
    monkeypatch.setattr(build, "_compiled", lambda *_: Path("compiled"))
    assert build.ensure_built() == Path("compiled")
    assert capsys.readouterr().err == (
        f"farwrite: the farwrite-tensorflow in {site / prebuilt.PACKAGE} is for tensorflow-cpu as"
        f" on PyPI, and the TensorFlow in {site / 'tensorflow'} is not known to be one:"
        f" {why.format(site=site)}\n"
    )


@pytest.mark.parametrize(
    "record",
    [
        record_rows(HASHES).replace("tensorflow/", "./tensorflow/"),
        record_rows(HASHES).replace("\n", "\r\n"),
        '"tensorflow/a file, with\na break",sha256=a,1\n\n' + record_rows(HASHES),
        "tensorflow/\u2028,sha256=a,1\n" + record_rows(HASHES),
        "".join(f'"tensorflow/{name}","{HASHES[name]}",5,more\n' for name in HASHES),
    ],
    ids=["dotted", "of_windows", "quoted", "separators", "more_columns"],
)
def test_a_record_may_be_written_in_other_ways(site: Path, record: str) -> None:
    write_record(record)(site)
    assert misfit() == ""


@pytest.mark.parametrize("name", ["intel_tensorflow", "tensorflow_cpu_aws", "my.tensorflow"])
def test_a_distribution_of_another_name_is_known_by_its_files(site: Path, name: str) -> None:
    shutil.rmtree(facts_of(site))
    write_distribution(site, name, record_rows(HASHES))
    write_distribution(site, "unrelated", "unrelated/__init__.py,sha256=a,1\n", "9.9")
    assert wheel.find_wheel().version == "2.21.0"
    assert misfit() == ""


@pytest.mark.parametrize(
    "version", ["2.21.0rc1", "2.21.0.dev20260101", "2.21.0.dev0+selfbuilt", "2.21.0+nv26.1"]
)
def test_a_build_that_is_no_release_is_compiled_for(site: Path, version: str) -> None:
    shutil.rmtree(facts_of(site))
    write_distribution(site, "tf_nightly", record_rows(HASHES), version)
    assert misfit() == (
        f"the farwrite-tensorflow in {site / prebuilt.PACKAGE} is for TensorFlow 2.21.0, and"
        f" {version} is installed"
    )


def test_a_nightly_build_of_another_minor_is_refused(site: Path) -> None:
    shutil.rmtree(facts_of(site))
    write_distribution(site, "tf_nightly_cpu", record_rows(HASHES), "2.22.0.dev20260101")
    with pytest.raises(Unsupported, match=r"TensorFlow 2\.22\.0\.dev20260101 is installed, and"):
        build.ensure_built()


@pytest.mark.parametrize(
    ("version", "own"),
    [
        ("2.21.0", "2.21.0"),
        ("2.21.1", "2.21.1"),
        ("2.21", "2.21.0"),
        ("2.21.0rc1", "2.21.0-rc1"),
        ("2.21.0.dev20260101", "2.21.0-dev20260101"),
        ("2.21.0.dev0+selfbuilt", "2.21.0-dev0"),
        ("2.21.0+nv26.1", "2.21.0"),
        ("2.21.0.post1", "2.21.0"),
    ],
)
def test_the_plug_in_gets_the_version_as_tensorflow_writes_it(
    site: Path, version: str, own: str
) -> None:
    plan = recipe.recipe(wheel.Wheel(site / "tensorflow", version))
    assert f'-DFARWRITE_TENSORFLOW_VERSION="{own}"' in plan.compile_flags


def test_the_facts_that_another_version_left_behind_do_not_count(site: Path) -> None:
    """Of pip, which could not remove a folder, and of a second distribution of TensorFlow."""
    write_distribution(site, "tensorflow", record_rows(HASHES, size=6), "2.20.0")
    (site / "~ensorflow_cpu-2.19.0.dist-info").mkdir()
    remains = write_distribution(site, "~ensorflow", "", "2.18.0")
    (remains / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.18.0\n")
    assert wheel.find_wheel().version == "2.21.0"
    assert misfit() == ""


def test_a_tensorflow_without_facts_is_refused(site: Path) -> None:
    """As one that was built in its own checkout, or copied."""
    shutil.rmtree(facts_of(site))
    with pytest.raises(FailedPrecondition, match="was not installed by pip, so its version"):
        build.ensure_built()
    (facts_of(site)).mkdir()
    with pytest.raises(FailedPrecondition, match="was not installed by pip, so its version"):
        build.ensure_built()


def test_a_tensorflow_without_its_libraries_is_refused(site: Path) -> None:
    """As conda's, whose libraries are in its own lib."""
    (site / "tensorflow" / "libtensorflow_cc.so.2").unlink()
    with pytest.raises(Unsupported, match=r"lacks libtensorflow_cc\.so\.2, so it is not the pip"):
        build.ensure_built()


@pytest.mark.parametrize("what", ["a_module", "a_folder"])
def test_what_merely_has_the_name_is_no_tensorflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    if what == "a_module":  # as tests put one into its place
        monkeypatch.setitem(sys.modules, "tensorflow", type(sys)("tensorflow"))
    else:
        monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
        (tmp_path / "tensorflow").mkdir()
    with pytest.raises(FailedPrecondition, match="this Python has no TensorFlow"):
        build.ensure_built()


def test_libraries_that_are_links_have_the_size_of_their_files(site: Path, tmp_path: Path) -> None:
    """As uv installs with `--link-mode symlink`."""
    for name in wheel.LIBRARIES:
        (site / "tensorflow" / name).rename(tmp_path / name)
        (site / "tensorflow" / name).symlink_to(tmp_path / name)
    assert misfit() == ""


def test_pip_installs_the_two_into_folders_of_their_own(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow from a file by `pip install --target`, beside whose facts pip names the file."""
    whole = tmp_path / "tensorflow_cpu-2.21.0-py3-none-any.whl"
    facts = facts_of(site)
    (facts / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n")
    with zipfile.ZipFile(whole, "w") as archive:
        for folder in (site / "tensorflow", facts):
            for file in folder.rglob("*"):
                archive.write(file, file.relative_to(site))
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    words = ["--no-index", "--no-deps", "--no-compile", "--target", target, whole]
    subprocess.run([*pip, *words], check=True)
    shutil.rmtree(site / "tensorflow")
    shutil.rmtree(facts)
    (target / facts.name / "direct_url.json").stat()
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.syspath_prepend(str(target))
    assert wheel.find_wheel().folder == target / "tensorflow"
    write_facts(site)
    assert misfit() == ""
