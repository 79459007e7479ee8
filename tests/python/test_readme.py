"""The README's ten lines, run as printed, and the examples."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def code_blocks(name: str) -> list[str]:
    """The Python blocks of a Markdown file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def body(path: Path) -> str:
    """An example without its docstring."""
    text = path.read_text(encoding="utf-8")
    first = ast.parse(text).body[0]
    assert isinstance(first, ast.Expr)
    assert first.end_lineno is not None
    return "\n".join(text.splitlines()[first.end_lineno :]).strip() + "\n"


def run_both(first: list[str], second: list[str]) -> str:
    """Run two programs side by side and return what the first printed."""
    with subprocess.Popen(first, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one:
        try:
            other = subprocess.run(second, capture_output=True, text=True, timeout=60, check=False)
            output, errors = one.communicate(timeout=60)
        finally:
            one.kill()
    assert (other.returncode, other.stderr) == (0, "")
    assert (one.returncode, errors) == (0, "")
    return output


def test_the_readme_prints_the_ten_lines_of_the_examples() -> None:
    receiver, sender = code_blocks("README.md")[:2]
    assert receiver == body(EXAMPLES / "receiver.py")
    assert sender == body(EXAMPLES / "sender.py")
    lines = [line for line in (receiver + sender).splitlines() if line.strip()]
    assert len(lines) == 10


@pytest.mark.usefixtures("example_port")
def test_the_ten_lines_run_as_printed(tmp_path: Path) -> None:
    receiver, sender = code_blocks("README.md")[:2]
    for name, text in (("receiver.py", receiver), ("sender.py", sender)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    output = run_both(
        [sys.executable, str(tmp_path / "receiver.py")],
        [sys.executable, str(tmp_path / "sender.py")],
    )
    assert output == "1048576.0\n"


@pytest.mark.usefixtures("example_port")
def test_the_ten_lines_run_in_any_order() -> None:
    # The sender waits for a receiver that is not there yet.
    with subprocess.Popen([sys.executable, str(EXAMPLES / "sender.py")]) as sender:
        try:
            receiver = subprocess.run(
                [sys.executable, str(EXAMPLES / "receiver.py")],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            assert sender.wait(60) == 0
        finally:
            sender.kill()
    assert receiver.stdout == "1048576.0\n"


def _run(name: str) -> str:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_the_alias_example_copies_nothing() -> None:
    assert _run("alias.py").splitlines() == [
        "64 MiB in place, row sum 8386560",
        "bytes copied: 0",
        "after the owner's end: [0. 1. 2. 3.]",
    ]


def test_the_asyncio_example_answers_every_job() -> None:
    answers = _run("asyncio_notifications.py").splitlines()
    assert sorted(answers) == [f"job {tag}: {(tag + 1) ** 2}" for tag in range(8)]


def test_the_tensors_example_asks_for_nothing_per_batch() -> None:
    assert _run("tensors.py").splitlines() == [
        "requests for batches: 0",
        *(f"batch {number}: {number * 1024 * 256}" for number in range(5)),
    ]


def test_every_example_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "receiver.py",
        "sender.py",
        "alias.py",
        "asyncio_notifications.py",
        "tensors.py",
        "assign_add.py",  # tensorflow/test_examples.py
    }
