"""What build files and scripts name exists: most of it is read only at night, or by hand."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout
ROOT = Path(__file__).parents[2]


def tracked(*patterns: str) -> dict[Path, str]:
    """Return the texts of the files of the checkout that match, by path."""
    command = ["git", "ls-files", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {at: at.read_text() for name in names.split() if (at := ROOT / name).is_file()}


def project_of(file: Path) -> Path:
    """Return the folder of the CMake project that the file belongs to."""
    lists = (folder / "CMakeLists.txt" for folder in file.parents)
    return next(at.parent for at in lists if at.exists() and "\nproject(" in "\n" + at.read_text())


def test_source_files_that_cmake_names_exist() -> None:
    missing, found = [], 0
    for file, text in tracked("*CMakeLists.txt", "*.cmake").items():
        project = project_of(file)
        folders = {"PROJECT_SOURCE_DIR": project, "CMAKE_CURRENT_SOURCE_DIR": file.parent}
        folders |= {
            name: project / path
            for name, path in re.findall(r"set\((\w+) \$\{PROJECT_SOURCE_DIR\}/([\w/]+)\)", text)
        }
        for folder, path in re.findall(r"\$\{(\w+)\}/([\w./]+\.(?:cc|h|map|py|sh))\b", text):
            found += folder in folders
            if folder in folders and not (folders[folder] / path).exists():
                missing.append(f"{file.relative_to(ROOT)}: ${{{folder}}}/{path}")
    assert found > 20
    assert not missing


def test_tests_that_scripts_name_exist() -> None:
    named = [
        (script, path, name)
        for script, text in tracked("tools/*.sh", "tools/*.py", "Makefile", ".ci/run").items()
        for path, name in re.findall(r"\b((?:[\w/]+/)?test_\w+\.py)(?:::(test_\w+))?", text)
    ]
    assert named
    files = {path: text for path, text in tracked("tests/python/*test_*.py").items()}
    missing = [
        f"{script.relative_to(ROOT)}: {path}::{name}"
        for script, path, name in named
        if not any(
            str(file).endswith(f"/{path}") and (not name or f"def {name}(" in text)
            for file, text in files.items()
        )
    ]
    assert not missing


def test_no_two_test_modules_have_one_name() -> None:
    names = sorted(file.name for file in tracked("tests/python/*test_*.py"))
    assert [name for name, count in Counter(names).items() if count > 1] == []  # pytest refuses
