"""The command lines of the programs of this folder, what they print, and how tests run them.

For all of them, and for `random_programs/search.py`: `TEST_SEED` draws whatever is drawn, and is 1
by default. `TEST_SHARE` leaves cases out: with `3` a program takes at most three of each kind, and
with `1/4` one in four.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

HERE = Path(__file__).parent
SEED = os.environ.get("TEST_SEED", "1")
SHARE = os.environ.get("TEST_SHARE", "")

UNDER_WAY_NOW = "under way: "
"""Begins a line of standard error, the last one of which says what went on at a crash."""
FINE = "survivor fine"

Case = TypeVar("Case")


def refuse(says: str) -> NoReturn:
    """End the process with status 2: a word of its command line stands for nothing."""
    print(f"{Path(sys.argv[0]).name}: {says}", file=sys.stderr, flush=True)
    sys.exit(2)


def check(word: str, known: Iterable[str], what: str) -> None:
    """End the process with status 2 unless the word is known."""
    listed = list(known)
    if word not in listed:
        refuse(f"'{word}' is no {what}; use one of: {', '.join(listed)}")


def drawn(cases: Sequence[Case], of: str, times: int = 1) -> list[Case]:
    """Return the cases, or the share of them that is asked for, `times` as many of a number.

    `of` names what they are the cases of, so that each draws others.
    """
    if not re.fullmatch(r"|(1/)?[1-9]\d*", SHARE):
        refuse(f"TEST_SHARE is '{SHARE}'; use a number such as 3, or a part such as 1/4")
    draw = random.Random(f"{SEED} {of}")
    if SHARE.startswith("1/"):
        every = int(SHARE[2:])
        return list(cases[draw.randrange(every) :: every])
    most = int(SHARE) * times if SHARE else len(cases)
    chosen = draw.sample(range(len(cases)), min(most, len(cases)))
    return [cases[at] for at in sorted(chosen)]


def command(program: str, *words: str) -> str:
    """Return the line that runs a program of this folder."""
    seed = "" if SEED == "1" else f"TEST_SEED={SEED} "
    line = shlex.join([f"tests/python/matrix/{program}", *words])
    return f"{seed}PYTHONPATH=tests/python .venv/bin/python {line}"


def under_way(*words: str, value: str = "") -> None:
    """Say which words of this program repeat what happens next, and with which value."""
    line = " ".join([*words, *(["=", value] if value else [])])
    print(f"{UNDER_WAY_NOW}{line}", file=sys.stderr, flush=True)


class Problems:
    """Prints what is wrong, and at last how to repeat the first of it."""

    def __init__(self) -> None:
        self._repeat: tuple[str, ...] | None = None

    def add(self, problem: str, *repeat: str) -> None:
        """Print a problem. `repeat` are the words of this program that repeat it."""
        print(problem, flush=True)
        self.count(*repeat)

    def count(self, *repeat: str) -> None:
        """Count a problem that is printed already."""
        if self._repeat is None:
            self._repeat = repeat

    @property
    def found(self) -> bool:
        return self._repeat is not None

    def end(self, fine: str = FINE) -> int:
        """Print that all is fine, or how to repeat a problem. Return the exit status."""
        if self._repeat is None:
            print(fine, flush=True)
            return 0
        print(f"repeat one: {command(Path(sys.argv[0]).name, *self._repeat)}", flush=True)
        return 1


def started(
    *words: str, timeout: float = 300, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of this folder, with these variables in its environment."""
    environment = {"PYTHONPATH": str(HERE.parent), "FARWRITE_LOG": "error", **variables}
    return subprocess.run(
        [sys.executable, "-W", "ignore", HERE / words[0], *words[1:]],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def run(*words: str, timeout: float = 300, **variables: str) -> str:
    """Run a program of this folder. It must end well, and print nothing but what is under way."""
    ended = started(*words, timeout=timeout, **variables)
    said = ended.stderr.splitlines()
    other = [line for line in said if not line.startswith(UNDER_WAY_NOW)]
    if ended.returncode == 0 and not other:
        return ended.stdout
    # What was under way when the first other line came, or at a crash.
    until = said.index(other[0]) if other and ended.returncode == 0 else len(said)
    last = [line.removeprefix(UNDER_WAY_NOW) for line in said[:until] if line not in other][-1:]
    alone = [command(words[0], *line.partition(" = ")[0].split()) for line in last]
    shown = "\n".join([*other[-40:], *(f"the last one alone: {line}" for line in alone)])
    raise AssertionError(f"status {ended.returncode}\n{ended.stdout}{shown}")
