"""Finds the program that a command names, and says why one cannot be run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from farwrite.errors import NotFound, PermissionDenied
from farwrite.nearest import NEARLY_EQUAL, did_you_mean


def check_program(word: str) -> None:
    """Check that `word`, the first of a command, names a program, where the system looks for it.

    Raises
    ------
    NotFound
        If there is no such file at its path or in PATH.
    PermissionDenied
        If the file cannot be executed.
    """
    found = [path for path in _places(word) if path.exists()]
    if not found:
        raise NotFound(_cannot_run(word, _missing(word)))
    if not any(map(_is_program, found)):
        first = found[0]
        cause = f"{first} is a folder; name a program in it"
        if not first.is_dir():
            cause = f"{first} is not executable; {_remedy(first)}"
        raise PermissionDenied(_cannot_run(word, cause))


def script_of_a_shell(word: str) -> Path | None:
    """Return the script that `word` names if its first line names no interpreter: sh runs it.

    None for a program that the system cannot run, which shows by a zero byte, as shells look.
    """
    path = next(filter(_is_program, _places(word)))
    with path.open("rb") as file:
        return path if b"\0" not in file.readline(256) else None


def not_started(word: str, error: OSError) -> NotFound | PermissionDenied:
    """Return the error about a program that the system did not start."""
    try:
        check_program(word)
    except (NotFound, PermissionDenied) as reason:
        return reason
    path = next(filter(_is_program, _places(word)))
    if not isinstance(error, FileNotFoundError):
        cause = f"{error.strerror}; if {path} is a script, name its interpreter before it"
        return PermissionDenied(_cannot_run(word, cause))
    interpreter = _interpreter(path)
    if interpreter:
        cause = (
            f"the first line of {path} names the interpreter {interpreter}, which does not exist;"
            " install it, or name another one before the script"
        )
    else:
        cause = (
            f"the loader of {path} does not exist; build the program for this system, or install"
            " the libraries of the system that it was built for"
        )
    return NotFound(_cannot_run(word, cause))


def _cannot_run(program: str, cause: str) -> str:
    return f"farwrite run: cannot run {shlex.quote(program)}: {cause}"


def _missing(word: str) -> str:
    path = Path(word)
    if "/" in word:
        hint = did_you_mean(path.name, _names(path.parent))
        return f"there is no such file{hint or '; check its path'}"
    if word and path.is_file():
        return f"PATH has no such program, and the file is in this folder; {_remedy(path)}"
    if path.suffix == ".py":
        return "PATH has no such program; name its interpreter before it: python " + shlex.quote(
            word
        )
    names = {name for folder in os.get_exec_path() for name in _names(Path(folder))}
    hint = did_you_mean(word, sorted(names), NEARLY_EQUAL)
    return f"PATH has no such program{hint or '; check its name, or give its path'}"


def _remedy(file: Path) -> str:
    path = shlex.quote(str(file) if "/" in str(file) else f"./{file}")
    if _is_program(file):
        return f"name its path, {path}"
    if file.suffix == ".py":
        return f"name its interpreter before it: python {shlex.quote(str(file))}"
    return f"allow it (chmod +x {path}), and name it by its path"


def _places(word: str) -> list[Path]:
    """Return the paths at which the system looks for a program."""
    if "/" in word:
        return [Path(word)]
    return [Path(folder, word) for folder in os.get_exec_path()] if word else []


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _interpreter(script: Path) -> str:
    """Return the interpreter that the first line of a script names; nothing of other files."""
    try:
        with script.open("rb") as file:
            first = file.readline(256)
    except OSError:
        return ""
    words = os.fsdecode(first).removeprefix("#!").split(maxsplit=1)
    return words[0] if first.startswith(b"#!") and words else ""
