"""The builder of the plug-in, with a TensorFlow that has nothing but a version and libraries."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from farwrite.errors import FailedPrecondition, Unsupported
from farwrite.plugin import build, cache, compiler, recipe, wheel

SOURCE = 'extern "C" int answer() { return FARWRITE_ANSWER; }\n'
GXX = shutil.which("g++") or "g++"
BUILD_ONE = (
    "import pathlib, sys; from farwrite.plugin import build, recipe;"
    " recipe.source_folder = lambda: pathlib.Path(sys.argv[1]); print(build.ensure_built())"
)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one source, in the place of the package's; a cache of its own."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "answer.cc").write_text(SOURCE)
    monkeypatch.setattr(recipe, "source_folder", lambda: folder)
    monkeypatch.setenv("FARWRITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FARWRITE_CXXFLAGS", "-DFARWRITE_ANSWER=42")
    monkeypatch.delenv("CXX", raising=False)
    return folder


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a TensorFlow of some version first in the search path; returns that folder."""

    def make(version: str) -> Path:
        site = tmp_path / f"site-{version}"
        package = site / "tensorflow"
        (package / "include" / "tensorflow").mkdir(parents=True)
        (package / "__init__.py").write_text("raise ImportError('the builder must not import it')")
        for name in ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2"):
            empty = (GXX, "-shared", "-x", "c++", os.devnull, "-o", str(package / name))
            subprocess.run(empty, check=True)
        facts = site / f"tensorflow_cpu-{version}.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: tensorflow_cpu\nVersion: {version}\n"
        )
        monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
        monkeypatch.syspath_prepend(str(site))
        return site

    return make


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Take the compilers away."""
    return lambda: monkeypatch.setenv("PATH", os.devnull)


@pytest.mark.usefixtures("sources")
def test_what_it_compiles_can_be_loaded_and_is_found_again(install: Callable[[str], Path]) -> None:
    install("2.21.3")
    began: list[str] = []
    built = build.ensure_built(before=lambda: began.append("once"))
    assert ctypes.CDLL(str(built)).answer() == 42
    assert "tensorflow-2.21.3" in built.parent.name
    before = built.stat().st_mtime_ns
    assert build.ensure_built(before=lambda: began.append("again")) == built
    assert built.stat().st_mtime_ns == before
    assert began == ["once"]


def test_processes_that_start_at_once_compile_once(
    install: Callable[[str], Path],
    sources: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = install("2.21.0")
    log = tmp_path / "compiled"
    slow = tmp_path / "slow-g++"
    slow.write_text(
        f'#!/bin/sh\ncase " $* " in *" -c "*) echo x >>{log}; sleep 1;; esac\nexec {GXX} "$@"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("CXX", str(slow))
    path = filter(None, (str(site), os.environ.get("PYTHONPATH")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    command = (sys.executable, "-c", BUILD_ONE, str(sources))
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = {process.communicate(timeout=240)[0] for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(printed) == 1
    assert log.read_text() == "x\n"


def test_batches_include_every_source_once(sources: Path, tmp_path: Path) -> None:
    for number in range(5):
        (sources / f"more_{number}.cc").write_text("//" * number + "\n")
    files = sorted(sources.glob("*.cc"))
    for count, expected in ((1, 1), (4, 4), (100, len(files))):
        batches = build.write_batches(files, count, tmp_path)
        assert len(batches) == expected
        included = sorted(line for batch in batches for line in batch.read_text().splitlines())
        assert included == sorted(f'#include "{file}"' for file in files)


@pytest.mark.usefixtures("sources")
def test_the_compiler_cache_that_cmake_would_take_compiles(
    install: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("2.21.0")
    log = tmp_path / "launched"
    launcher = tmp_path / "launcher"
    launcher.write_text(f'#!/bin/sh\necho "$1" >>{log}\nshift\nexec "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("CMAKE_CXX_COMPILER_LAUNCHER", f"{launcher};setting=1")
    assert ctypes.CDLL(str(build.ensure_built())).answer() == 42
    assert log.read_text() == "setting=1\n"


@pytest.mark.usefixtures("sources")
def test_without_a_compiler_it_says_what_to_install(
    install: Callable[[str], Path], no_compiler: Callable[[], None]
) -> None:
    install("2.21.0")
    no_compiler()
    with pytest.raises(FailedPrecondition, match="apt install g\\+\\+"):
        build.ensure_built()


@pytest.mark.usefixtures("sources")
def test_a_kept_build_serves_when_the_compiler_has_gone(
    install: Callable[[str], Path], no_compiler: Callable[[], None]
) -> None:
    install("2.21.0")
    built = build.ensure_built()
    no_compiler()
    assert build.ensure_built() == built


def test_a_cxx_that_is_no_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(FailedPrecondition, match="CXX=no-such-compiler"):
        compiler.find_compiler()


@pytest.mark.usefixtures("sources")
def test_an_unknown_minor_is_refused_with_the_policy(install: Callable[[str], Path]) -> None:
    install("2.99.0")
    with pytest.raises(
        Unsupported, match=r"2\.99\.0 .* supports 2\.21.*docs/reference/tensorflow\.md"
    ):
        build.ensure_built()


def test_a_missing_tensorflow_comes_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FailedPrecondition, match=r"pip install 'tensorflow-cpu==2\.21\.\*'"):
        wheel.find_wheel()


def test_the_key_changes_with_all_that_decides_the_code(
    install: Callable[[str], Path], sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("2.21.0")
    gcc = compiler.Compiler(("g++",), "gcc", "12.2")

    def key(by: compiler.Compiler = gcc) -> str:
        return recipe.recipe(wheel.find_wheel()).key(by)

    first = key()
    keys = {first, key(compiler.Compiler(("g++",), "gcc", "13.1"))}
    assert key(compiler.Compiler(("other-g++",), "gcc", "12.9")) == first
    (sources / "answer.cc").write_text(SOURCE + "// more\n")
    keys.add(key())
    (sources / "answer.h").write_text("")
    keys.add(key())
    monkeypatch.setenv("FARWRITE_CXXFLAGS", "-O1")
    keys.add(key())
    install("2.21.1")
    keys.add(key())
    monkeypatch.setattr(recipe, "version", lambda: "9.9.9")
    keys.add(key())
    assert len(keys) == 7


def test_a_compiler_error_is_shown_and_leaves_nothing(
    install: Callable[[str], Path], sources: Path
) -> None:
    install("2.21.0")
    (sources / "answer.cc").write_text("#error this wheel is another one\n")
    with pytest.raises(FailedPrecondition, match="this wheel is another one"):
        build.ensure_built()
    assert [entry.suffix for entry in cache.cache_folder().iterdir()] == [".lock"]


@pytest.mark.usefixtures("sources")
def test_clean_deletes_every_build(install: Callable[[str], Path]) -> None:
    install("2.21.0")
    built = build.ensure_built()
    size = built.stat().st_size
    assert cache.clean() >= size
    assert not built.exists()
    assert cache.builds() == []
