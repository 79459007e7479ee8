"""Virtual environments that have only what the packages' metadata requires.

`make install` puts tools beside the packages, and TensorFlow brings others. A requirement that no
metadata names shows only where these are missing. An environment is made of hard links to the files
of the environment that runs the tests, which has all of them: nothing is fetched.
"""

from __future__ import annotations

import os
import shutil
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

FOLDER = Path(__file__).parents[2] / "build" / "bare" / os.environ.get("PYTEST_XDIST_WORKER", "one")


def required(named: str) -> Iterator[Distribution]:
    """Yield what installing ``package[extra]`` installs: it and its requirements, each once."""
    waiting, seen = [Requirement(named)], set()
    while waiting:
        wanted = waiting.pop()
        for extra in ("", *wanted.extras):
            if (wanted.name, extra) in seen:
                continue
            seen.add((wanted.name, extra))
            found = distribution(wanted.name)
            if extra == "":
                yield found
            for line in found.requires or ():
                requirement = Requirement(line)
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    waiting.append(requirement)


def make_environment(name: str, packages: Iterable[str]) -> Path:
    """Make the environment anew and return its Python."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, symlinks=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    for package in packages:
        for found in required(package):
            for file in found.files or ():
                target = site / file
                if ".." not in file.parts and not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.link(found.locate_file(file), target)
    return folder / "bin" / "python"
