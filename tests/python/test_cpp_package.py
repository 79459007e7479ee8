"""The C and C++ examples, built as a user builds them: outside this repository."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

import farwrite as fw
from farwrite_bench.cluster.process import free_ports
from pages import blocks_of

# A clean checkout compiles the whole core for the tests of `cmake --install`.
pytestmark = pytest.mark.timeout(1200)

ROOT = Path(__file__).resolve().parents[2]
WHEEL = Path(fw.__file__).parent
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
CXX = ("c++", "-std=c++17", *WARNINGS)
C = ("cc", "-std=c11", "-pthread", *WARNINGS)
ENVIRONMENT = os.environ | {"PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"}


def call(*command: str | Path) -> str:
    """Run a command and return what it printed; its errors are the test's."""
    ended = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=ENVIRONMENT,
        cwd="/",
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{shlex.join(map(str, command))}\n{ended.stdout}"
    return ended.stdout


def config(*flags: str) -> list[str]:
    """What `farwrite config` prints."""
    return shlex.split(call("farwrite", "config", *flags))


def pkg_config(folder: Path) -> list[str]:
    """The flags of farwrite.pc, read as pkg-config reads them where that command is missing."""
    if shutil.which("pkg-config"):
        found = ("env", f"PKG_CONFIG_PATH={folder}", "pkg-config", "--cflags", "--libs")
        return shlex.split(call(*found, f"farwrite = {fw.__version__}"))
    text = (folder / "farwrite.pc").read_text(encoding="utf-8")
    text = text.replace("${pcfiledir}", str(folder))
    for name, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE):
        text = text.replace(f"${{{name}}}", value)
    assert f"\nVersion: {fw.__version__}\n" in text
    return shlex.split(" ".join(re.findall(r"^(?:Cflags|Libs): (.*)$", text, re.MULTILINE)))


def build_by_cmake(sources: Path, made: Path, where: str) -> Path:
    """Configure and build both projects; the C++ one asks for C++14 and gets the C++17 it needs."""
    warnings = " ".join(WARNINGS)
    for folder, language, asked, got in (("cpp", "CXX", "14", "c++17"), ("c", "C", "11", "c11")):
        settings = (
            where,
            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            f"-DCMAKE_{language}_EXTENSIONS=OFF",
            f"-DCMAKE_{language}_FLAGS={warnings}",
            f"-DCMAKE_{language}_STANDARD={asked}",
        )
        call("cmake", "-GNinja", "-S", sources / folder, "-B", made / folder, *settings)
        call("cmake", "--build", made / folder)
        assert f"-std={got} " in (made / folder / "compile_commands.json").read_text()
    return made


def build_by_flags(sources: Path, made: Path, flags: list[str]) -> Path:
    """Compile the pair of examples/cpp and that of examples/c by one command each."""
    for language, compiler, suffix in (("cpp", CXX, "cc"), ("c", C, "c")):
        (made / language).mkdir(parents=True)
        for name in ("receiver", "sender"):
            source = sources / language / f"{name}.{suffix}"
            call(*compiler, "-o", made / language / name, source, *flags)
    return made


def run_pair(first: list[str | Path], second: list[str | Path], **variables: str) -> list[str]:
    """Run two programs side by side and return what both printed."""
    printed: list[str] = []
    programs = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | variables,
            text=True,
        )
        for command in (first, second)
    ]
    try:
        for program in reversed(programs):  # the second ends without the first, if it fails
            output, errors = program.communicate(timeout=60)
            assert (program.returncode, errors) == (0, "")
            printed.insert(0, output)
    finally:
        for program in programs:
            program.kill()
            program.communicate()
    return printed


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A user's copy of the examples, at a port that is free."""
    copied = shutil.copytree(ROOT / "examples", tmp_path / "examples")
    port = str(free_ports(1)[0])
    for source in (*copied.glob("c*/*.c"), *copied.glob("c*/*.cc")):
        text = source.read_text(encoding="utf-8")
        source.write_text(text.replace("7777", port), encoding="utf-8")
    return copied


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release preset, installed; `make test` has compiled it."""
    installed = tmp_path_factory.mktemp("prefix")
    build = ROOT / "build" / "release"
    call("cmake", "-S", ROOT, "--preset", "release", "--log-level=WARNING")
    call("cmake", "--build", build, "--target", "farwrite")
    call("cmake", "--install", build, "--prefix", installed)
    return installed


def by_cmake_from_the_wheel(sources: Path, made: Path) -> Path:
    return build_by_cmake(sources, made, f"-Dfarwrite_DIR={config('--cmake-dir')[0]}")


def by_config_flags(sources: Path, made: Path) -> Path:
    return build_by_flags(sources, made, config("--cflags", "--libs"))


def by_pkg_config_from_the_wheel(sources: Path, made: Path) -> Path:
    return build_by_flags(sources, made, pkg_config(Path(config("--pkg-config-dir")[0])))


@pytest.mark.parametrize(
    "build", [by_cmake_from_the_wheel, by_config_flags, by_pkg_config_from_the_wheel]
)
def test_the_examples_run_with_the_wheel(
    build: Callable[[Path, Path], Path], sources: Path, tmp_path: Path
) -> None:
    made = build(sources, tmp_path / "made")
    check_examples(made)


def test_the_examples_run_with_an_installed_prefix(
    prefix: Path, sources: Path, tmp_path: Path
) -> None:
    check_examples(build_by_cmake(sources, tmp_path / "made", f"-DCMAKE_PREFIX_PATH={prefix}"))


def test_pkg_config_finds_an_installed_prefix(prefix: Path, sources: Path, tmp_path: Path) -> None:
    (found,) = prefix.glob("**/farwrite.pc")
    made = build_by_flags(sources, tmp_path / "made", pkg_config(found.parent))
    (library,) = prefix.glob("**/libfarwrite.so")
    check_examples(made, LD_LIBRARY_PATH=str(library.parent))


def check_examples(made: Path, **variables: str) -> None:
    for language in ("cpp", "c"):
        folder = made / language
        printed = run_pair([folder / "receiver"], [folder / "sender"], **variables)
        assert printed == ["1048576.0\n", ""]
    box = made / "cpp" / "box"
    if box.exists():
        with subprocess.Popen([box, "add"], env=os.environ | variables) as first:
            assert run_pair([box, "serve"], [box, "add"], **variables) == ["version 2: 2.0\n", ""]
            assert first.wait(60) == 0
    tensors = made / "cpp" / "tensors"
    if tensors.exists():
        sums = "".join(f"batch {number}: {number * 1024 * 256}\n" for number in range(5))
        assert run_pair([tensors, "sum"], [tensors, "send"], **variables) == ["", sums]


@pytest.mark.parametrize("program", ["cpp/receiver.cc", "cpp/sender.cc", "c/receiver.c"])
def test_the_how_to_shows_the_whole_program(program: str) -> None:
    example = ROOT / "examples" / program
    shown = [block.text for block in blocks_of(ROOT / "docs/how-to/cpp.md")]
    assert example.read_text(encoding="utf-8") in shown


def test_the_package_can_be_moved(sources: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved" / "farwrite"
    for folder in ("cmake", "include", "pkgconfig"):
        shutil.copytree(WHEEL / folder, moved / folder)
    shutil.copy(WHEEL / "libfarwrite.so", moved)
    assert all(str(WHEEL) not in flag for flag in pkg_config(moved / "pkgconfig"))
    # scikit-build-core searches like this: the parent of the package is a prefix of CMake.
    made = tmp_path / "made"
    where = f"-DCMAKE_PREFIX_PATH={moved.parent}"
    call("cmake", "-GNinja", "-S", sources / "c", "-B", made, where)
    call("cmake", "--build", made)
    assert str(moved / "libfarwrite.so") in call("ldd", made / "receiver")


@pytest.mark.parametrize("requirement", ["0.2", "1.0", "0.1 COMPONENTS unknown"])
def test_cmake_refuses_another_version_or_part(requirement: str, tmp_path: Path) -> None:
    config_file = WHEEL / "cmake" / "farwriteConfig.cmake"
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\n"
        "project(user LANGUAGES C)\n"
        f"find_package(farwrite {requirement} QUIET)\n"
        'message(STATUS "[${farwrite_FOUND}] [${farwrite_CONSIDERED_CONFIGS}]")\n'
    )
    where = f"-Dfarwrite_DIR={config_file.parent}"
    answer = call("cmake", "-GNinja", "-S", tmp_path, "-B", tmp_path / "made", where)
    assert f"-- [0] [{config_file}]" in answer or f"-- [FALSE] [{config_file}]" in answer


def test_the_names_of_the_interface_have_the_version() -> None:
    text = (WHEEL / "include/farwrite/internal/namespace.h").read_text()
    assert set(re.findall(r"\bv(\d+_\d+_\d+)_", text)) == {fw.__version__.replace(".", "_")}


HEADERS = [
    str(path.relative_to(WHEEL / "include")) for path in WHEEL.glob("include/farwrite/**/*.h")
]


def test_the_headers_need_no_exceptions_and_no_type_information(tmp_path: Path) -> None:
    source = tmp_path / "bare.cc"
    source.write_text("#include <farwrite/farwrite.h>\n")
    call(*CXX, "-fsyntax-only", "-fno-exceptions", "-fno-rtti", source, *config("--cflags"))


@pytest.mark.parametrize("header", sorted(HEADERS))
def test_a_header_alone_is_cxx17(header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cc"
    source.write_text(f'#include "{header}"\n')
    call(*CXX, "-fsyntax-only", source, *config("--cflags"))
