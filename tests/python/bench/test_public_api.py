"""farwrite_bench uses only Farwrite's public API, and Farwrite does not use farwrite_bench."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
BENCH = ROOT / "bench/python/farwrite_bench"
PUBLIC = {
    "farwrite",
    "farwrite.box",
    "farwrite.errors",
    "farwrite.info",
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
    assert len(sources) > 20
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


def test_the_bench_package_imports_public_names_alone() -> None:
    wrong = []
    for source, tree in trees(BENCH):
        for module, name in imported(tree):
            if module.partition(".")[0] != "farwrite":
                continue
            # ``from farwrite import trace`` imports the module farwrite.trace.
            public = module in PUBLIC or f"{module}.{name}" in PUBLIC
            if not public or name.startswith("_"):
                wrong.append(f"{source.relative_to(ROOT)}: {module} {name}")
    assert wrong == []


def test_the_bench_package_touches_no_handle_of_the_core() -> None:
    internal = {"native", "native_device", "_native"}
    wrong = [
        f"{source.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for source, tree in trees(BENCH)
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


def test_farwrite_does_not_import_the_bench_package() -> None:
    wrong = [
        str(source.relative_to(ROOT))
        for source, tree in trees(ROOT / "python/farwrite")
        if any(module.partition(".")[0] == "farwrite_bench" for module, _ in imported(tree))
        or "farwrite_bench" in source.read_text()
    ]
    assert wrong == []


def test_both_packages_have_one_version_and_the_same_build_tools() -> None:
    texts = [(ROOT / path).read_text() for path in ("pyproject.toml", "bench/pyproject.toml")]
    versions = [re.search(r'^version = "(.+)"', text, re.MULTILINE)[1] for text in texts]
    assert versions[0] == versions[1]
    assert texts[1].count(f'"farwrite=={versions[0]}"') == 2
    for tool in ("scikit-build-core", "nanobind", "typing_extensions"):
        pins = {pin for text in texts for pin in re.findall(rf'"{tool}==(.+?)"', text)}
        assert len(pins) == 1, tool
