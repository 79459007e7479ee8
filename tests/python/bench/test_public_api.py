"""The other packages use Farwrite's public API alone, and no package uses one above it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).parents[3]
PACKAGES = [
    ROOT / folder
    for folder in (
        "bench/python/farwrite_bench",
        "experiments/python/farwrite_experiments",
        "demo/python/farwrite_demo",
    )
]
PUBLIC = {
    "farwrite",
    "farwrite.box",
    "farwrite.cli_parser",
    "farwrite.errors",
    "farwrite.info",
    "farwrite.optional",
    "farwrite.plugin.library",
    "farwrite.run.html_page",
    "farwrite.sockets",
    "farwrite.tensorflow",
    "farwrite.trace",
    "farwrite.units",
}
"""The modules whose names without an underscore other packages may use."""


def trees(folder: Path) -> Iterator[tuple[Path, ast.Module]]:
    sources = sorted(folder.rglob("*.py"))
    assert len(sources) > 5
    for source in sources:
        yield source, ast.parse(source.read_text())


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each import as (module, name); the name of a plain ``import module`` is empty."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_imports_public_names_alone(package: Path) -> None:
    wrong = []
    for source, tree in trees(package):
        for module, name in imported(tree):
            if module.partition(".")[0] != "farwrite":
                continue
            # ``from farwrite import trace`` imports the module farwrite.trace.
            public = module in PUBLIC or f"{module}.{name}" in PUBLIC
            if not public or name.startswith("_"):
                wrong.append(f"{source.relative_to(ROOT)}: {module} {name}")
    assert wrong == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_touches_no_handle_of_the_core(package: Path) -> None:
    internal = {"native", "native_device", "_native"}
    wrong = [
        f"{source.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for source, tree in trees(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in internal
    ]
    assert wrong == []


def test_the_bench_module_includes_public_headers_alone() -> None:
    sources = [*(ROOT / "bench/src").glob("*.h"), *(ROOT / "bench/src").glob("*.cc")]
    assert len(sources) > 10
    own = {path.name for path in sources}
    public = {str(p.relative_to(ROOT / "include")) for p in (ROOT / "include").rglob("*.h")}
    for source in sources:
        for header in re.findall(r'#include "(.+)"', source.read_text()):
            assert header in own | public, f"{source.name} includes {header}"


@pytest.mark.parametrize(
    ("package", "above"),
    [
        (ROOT / "python/farwrite", "farwrite_bench"),
        (ROOT / "python/farwrite", "farwrite_demo"),
        (ROOT / "python/farwrite", "farwrite_experiments"),
        (PACKAGES[0], "farwrite_demo"),
        (PACKAGES[0], "farwrite_experiments"),
        (PACKAGES[1], "farwrite_demo"),
        (PACKAGES[2], "farwrite_bench"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_package_does_not_use_what_stands_on_it(package: Path, above: str) -> None:
    wrong = [
        str(source.relative_to(ROOT)) for source, _ in trees(package) if above in source.read_text()
    ]
    assert wrong == []


def test_all_packages_have_one_version_and_the_same_build_tools() -> None:
    folders = (".", "bench", "experiments", "demo")
    texts = [(ROOT / folder / "pyproject.toml").read_text() for folder in folders]
    versions = {re.search(r'^version = "(.+)"', text, re.MULTILINE)[1] for text in texts}
    assert len(versions) == 1
    (version,) = versions
    assert texts[1].count(f'"farwrite=={version}"') == 2
    assert texts[2].count(f'"farwrite-bench=={version}"') == 1
    assert texts[3].count(f'"farwrite=={version}"') == 1
    for tool in ("scikit-build-core", "nanobind"):
        pins = {pin for text in texts for pin in re.findall(rf'"{tool}==(.+?)"', text)}
        assert len(pins) == 1, tool
