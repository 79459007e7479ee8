"""The options of benchmarks, each declared once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from farwrite_bench.options import count, positive, sizes


@dataclass(frozen=True)
class Option:
    """One option. Its attribute has the name without dashes."""

    name: str
    help: str
    default: Any = None
    quick: Any = None
    """The default of a run with ``--quick``; None: the same."""
    kind: Callable[[str], Any] | None = None
    """Converts an argument; None: the option takes none."""
    metavar: str = "N"
    choices: Collection[str] | None = None
    many: bool = False
    """Whether it may be given several times; its value is a list."""
    shown: str | None = None
    """How help writes the defaults, where str() would not do."""
    group: str = ""
    """The heading below which help has it."""

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add it to a parser. The default is filled in by `resolve`."""
        settings: dict[str, Any] = {"help": f"{self.help}{self._defaults()}"}
        if self.choices is not None:
            settings["choices"] = self.choices
        elif self.kind is not None:
            settings |= {"type": self.kind, "metavar": self.metavar}
        else:
            settings["action"] = "store_true"
        if self.many:
            settings["action"] = "append"
        parser.add_argument(self.name, **settings)

    def resolve(self, arguments: argparse.Namespace) -> None:
        """Fill in the default, where the option was not given."""
        attribute = self.name.lstrip("-").replace("-", "_")
        if getattr(arguments, attribute) is None:
            quick = arguments.quick and self.quick is not None
            setattr(arguments, attribute, self.quick if quick else self.default)

    def _defaults(self) -> str:
        if self.shown is not None:
            return f" (default: {self.shown})" if self.shown else ""
        if self.default is None:
            return ""
        quick = "" if self.quick is None else f"; --quick: {self.quick}"
        return f" (default: {self.default}{quick})"


def rounds(default: int | None, quick: int | None, shown: str | None = None) -> Option:
    """Declare ``--rounds``."""
    return Option("--rounds", "rounds to measure", default, quick, count, shown=shown)


def steps(default: int, quick: int | None = None) -> Option:
    """Declare ``--steps``."""
    return Option("--steps", "steps of one turn", default, quick, count)


def seconds(default: float, quick: float | None = None) -> Option:
    """Declare ``--seconds``."""
    what = "about how long one case may take, in seconds; lowers the rounds, to 5 at least"
    return Option("--seconds", what, default, quick, positive)


def chosen(
    name: str, choices: Collection[str], shown: str = "all", *, filled: bool = True
) -> Option:
    """Declare an option that selects one of `choices` each time that it is given.

    Where it is not given, it has all of them if it is `filled`, and otherwise None.
    """
    return Option(
        name,
        "use only this one; may be given several times",
        tuple(choices) if filled else None,
        choices=choices,
        many=True,
        shown=shown,
    )


def group(heading: str, *options: Option) -> tuple[Option, ...]:
    """Put options below a heading of the help."""
    return tuple(replace(each, group=heading) for each in options)


def size_list(default: tuple[int, ...], quick: tuple[int, ...], **more: Any) -> Option:
    """Declare ``--sizes``, a list of numbers of bytes."""
    return Option("--sizes", default=default, quick=quick, **{"kind": sizes, **more})


FABRIC = Option(
    "--fabric", "fabric that Farwrite must use (default: Farwrite chooses)", choices=("shm", "tcp")
)
