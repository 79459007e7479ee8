"""Which component for gRPC is used, and which are refused. The libraries are no libraries."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

import farwrite as fw
from farwrite import cli
from farwrite.run import grpc_component
from farwrite.run.grpc_component import LIBRARIES, PACKAGE, PRELOADED, find_component

HERE = 12
"""The version of the C ABI that the installed Farwrite has in these tests."""

INSTALL = (
    "install the one of the same release: pip install --force-reinstall --no-deps"
    " farwrite_grpc-0.1.0-*.whl"
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site-packages with Farwrite and without a component."""
    own = tmp_path / "site" / "farwrite"
    own.mkdir(parents=True)
    monkeypatch.setattr(grpc_component, "OWN", own)
    monkeypatch.setattr(grpc_component, "c_abi", lambda: HERE)
    monkeypatch.setattr(grpc_component, "version", lambda: "0.1.0")
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    monkeypatch.syspath_prepend(str(own.parent))
    return own.parent


def install(folder: Path, c_abi: int | None = HERE) -> Path:
    """Put a component into a folder that was built for a version, or before there was one."""
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text("raise ImportError('finding it must not import it')")
    text = b"" if c_abi is None else b"farwrite-grpc: C ABI %d\0" % c_abi
    for name in LIBRARIES:
        (folder / name).write_bytes(b"\x7fELF" + text)
    return folder


def refusal() -> str:
    with pytest.raises(fw.FailedPrecondition) as caught:
        find_component()
    return str(caught.value)


def test_that_of_farwrites_own_package_comes_first(site: Path) -> None:
    package = install(site / PACKAGE)
    assert find_component() == package
    own = install(site / "farwrite")
    assert find_component() == own


def test_without_one_the_two_ways_to_get_it_are_named(site: Path, capfd) -> None:
    assert cli.main(["run", "--grpc", "--", "echo", "started"]) == 1
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == (
        "farwrite run: the component for gRPC is not installed; install farwrite-grpc, or"
        " in a checkout of Farwrite type: make grpc\n"
    )


@pytest.mark.parametrize(
    ("c_abi", "reason"),
    [
        (None, "was built for an older Farwrite than the installed 0.1.0 of C ABI 12"),
        (11, "needs C ABI 11 of Farwrite, and the installed Farwrite 0.1.0 has C ABI 12"),
        (13, "needs C ABI 13 of Farwrite, and the installed Farwrite 0.1.0 has C ABI 12"),
    ],
    ids=["of_no_version", "older", "newer"],
)
def test_one_of_another_c_abi_is_refused_before_a_program_starts(
    site: Path, capfd, c_abi: int | None, reason: str
) -> None:
    package = install(site / PACKAGE, c_abi)
    assert refusal() == (f"the farwrite-grpc in {package} {reason}; {INSTALL}")
    own = install(site / "farwrite", c_abi)
    install(package)  # one that fits does not hide it
    assert refusal() == (
        f"the component for gRPC in {own} {reason}; in a checkout of this Farwrite type: make grpc;"
        f" or delete libfarwrite_grpc*.so in that folder, and {INSTALL}"
    )
    assert cli.main(["run", "--grpc", "--", "echo", "started"]) == 1
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err == f"farwrite run: {refusal()}\n"


@pytest.mark.parametrize("missing", LIBRARIES)
def test_half_a_component_is_refused(site: Path, missing: str) -> None:
    (install(site / PACKAGE) / missing).unlink()
    assert f"is damaged, as it has no {missing}; install the one" in refusal()
    (install(site / "farwrite") / missing).unlink()
    assert f"is damaged, as it has no {missing}; in a checkout" in refusal()


@pytest.mark.parametrize("another", [False, True], ids=["alone", "beside_another_farwrite"])
def test_one_that_is_not_beside_farwrite_is_refused(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, another: bool
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if another:
        (elsewhere / "farwrite").mkdir()
    install(elsewhere / PACKAGE)
    monkeypatch.syspath_prepend(str(elsewhere))
    assert refusal().endswith(
        f"does not lie beside the Farwrite in {site / 'farwrite'}, whose library it takes; install"
        " both into one environment"
    )


def test_config_prints_the_flags_of_the_one_that_is_used(site: Path, capsys) -> None:
    package = install(site / PACKAGE)
    assert cli.main(["config", "--grpc-cflags", "--grpc-libs", "--cflags"]) == 0
    first, *libs, last = shlex.split(capsys.readouterr().out)
    assert first == f"-I{package}/include"
    assert libs == [f"-L{package}", f"-Wl,-rpath,{package}", "-lfarwrite_grpc"]
    assert last.endswith("farwrite/include")
    (package / PRELOADED).write_bytes(b"\x7fELF")
    assert cli.main(["config", "--grpc-libs"]) == 1
    assert "was built for an older Farwrite" in capsys.readouterr().err


def test_the_c_abi_here_is_that_of_the_installed_header() -> None:
    header = (grpc_component.OWN / "include/farwrite/c_status.h").read_text()
    found = re.search(r"^#define FW_ABI_VERSION (\d+)$", header, re.M)
    assert found is not None
    assert grpc_component.c_abi() == int(found[1])
