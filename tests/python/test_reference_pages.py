"""The reference pages name everything that is public, so that the site shows it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import farwrite as fw
from pages import ROOT

pytestmark = pytest.mark.checkout

REFERENCE = ROOT / "docs/reference"


def _public_names(module: Path) -> set[str]:
    """The names in a module's __all__, read without an import: TensorFlow may be missing."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{module} has no __all__")


@pytest.mark.parametrize(
    "module",
    [
        "farwrite",
        "farwrite.box",
        "farwrite.box.training",
        "farwrite.box.training.keras",
        "farwrite.box.training.torch",
        "farwrite.tensorflow",
    ],
)
def test_the_python_page_shows_every_public_name_once(module: str) -> None:
    page = (REFERENCE / "python.md").read_text(encoding="utf-8")
    shown = re.findall(rf"^\.\. auto\w+:: {re.escape(module)}\.(\w+)$", page, re.MULTILINE)
    package = Path(fw.__file__).parent / "/".join(["", *module.split(".")[1:]]).strip("/")
    source = package / "__init__.py" if package.is_dir() else package.with_suffix(".py")
    assert sorted(shown) == sorted(_public_names(source))


def test_the_cpp_page_shows_every_public_header_once() -> None:
    page = (REFERENCE / "cpp.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\.\. header:: (\S+)$", page, re.MULTILINE)
    headers = {path.name for path in (ROOT / "include/farwrite").glob("*.h")}
    assert sorted(shown) == sorted(headers - {"farwrite.h"})  # which includes the others
