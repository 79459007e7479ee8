"""What the wheels of `make wheels` are made of: versions of symbols, libraries, tags, size."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from wheels.environments import BUILT, FOLDER, TOOLS, Wheel, call, file_of

pytestmark = pytest.mark.nightly

LARGEST = 3_000_000
# glibc's, and GCC's unwinder, which glibc needs itself.
LIBRARIES = {
    *("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1"),
    *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
}
OLDEST = {"GLIBC": (2, 28), "GCC": (4, 2, 0)}
each_wheel = pytest.mark.parametrize("wheel", BUILT, ids=lambda wheel: wheel.name)


def libraries(wheel: Wheel, folder: Path) -> list[Path]:
    """Unpack the shared libraries of a wheel."""
    with zipfile.ZipFile(file_of(wheel)) as archive:
        return [
            Path(archive.extract(name, folder))
            for name in archive.namelist()
            if name.endswith(".so")
        ]


@each_wheel
def test_it_is_a_manylinux_wheel_for_glibc_2_28(wheel: Wheel) -> None:
    said = " ".join(call(TOOLS / "auditwheel", "show", file_of(wheel)).split())
    found = re.search(r'constrains the platform tag to "manylinux_2_(\d+)_(\w+)"', said)
    assert found is not None, said
    assert int(found[1]) <= 28 and found[2] == wheel.processor


@pytest.mark.parametrize(
    "wheel", [wheel for wheel in BUILT if wheel.stable], ids=lambda wheel: wheel.name
)
def test_it_uses_the_stable_abi_alone(wheel: Wheel) -> None:
    said = call(TOOLS / "abi3audit", "--strict", "--verbose", file_of(wheel))
    assert "0 ABI version mismatches and 0 ABI violations found" in said, said


@each_wheel
def test_it_needs_glibc_and_the_systems_unwinder_alone(wheel: Wheel, tmp_path: Path) -> None:
    for library in libraries(wheel, tmp_path):
        dynamic = call("readelf", "--dynamic", "--wide", library)
        needed = set(re.findall(r"\(NEEDED\) .*\[(.+)\]", dynamic))
        assert needed <= LIBRARIES | {"libfarwrite.so"}, library
        assert "libgcc_s.so.1" in needed, library
        wanted = re.findall(
            r"Name: ([A-Z]+)_([\d.]+) ", call("readelf", "--version-info", "--wide", library)
        )
        # All that is older than glibc 2.17 has that version on aarch64.
        assert len(wanted) > 2, "the list of versions is gone: this test has lost its subject"
        for name, version in wanted:
            assert tuple(map(int, version.split("."))) <= OLDEST[name], (library, name, version)


@each_wheel
def test_it_exports_the_c_abi_and_the_module_alone(wheel: Wheel, tmp_path: Path) -> None:
    """No name of C++ or of an unwinder, which another library could take for its own."""
    for library in libraries(wheel, tmp_path):
        table = call("readelf", "--dyn-syms", "--wide", library)
        rows = [line.split() for line in table.splitlines() if re.match(r"\s+\d+:", line)]
        names = [row[7] for row in rows if len(row) > 7 and row[6] != "UND" and row[4] != "LOCAL"]
        allowed = r"fw_\w+|PyInit__farwrite"
        assert names
        assert [name for name in names if not re.fullmatch(allowed, name)] == [], library


@each_wheel
def test_it_is_small(wheel: Wheel) -> None:
    assert file_of(wheel).stat().st_size <= LARGEST


@each_wheel
def test_it_has_verbs_a_stub_and_a_module_of_its_tags_name(wheel: Wheel, tmp_path: Path) -> None:
    python = wheel.python.removeprefix("cp")
    suffix = "abi3" if wheel.stable else f"cpython-{python}-{wheel.processor}-linux-gnu"
    with zipfile.ZipFile(file_of(wheel)) as archive:
        assert b"class Device" in archive.read("farwrite/_farwrite.pyi")
        assert f"farwrite/_farwrite.{suffix}.so" in archive.namelist()
    (library,) = (path for path in libraries(wheel, tmp_path) if path.name == "libfarwrite.so")
    assert b"librdmacm.so.1" in library.read_bytes()


def test_the_folder_has_no_other_wheels() -> None:
    assert {path.name for path in FOLDER.glob("*.whl")} == {file_of(one).name for one in BUILT}
