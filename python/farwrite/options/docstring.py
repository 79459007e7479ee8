"""The docstrings of what takes the options of a `Device`, made of the table of options."""

from __future__ import annotations

from typing import TypeVar

from farwrite.docstring import INDENT, section
from farwrite.options.option import Kind, Option
from farwrite.options.table import DEVICE_OPTIONS

T = TypeVar("T")


def add_parameters(kind: type[T], fabric: str = "") -> type[T]:
    """Write a table into the docstring of `kind`, in place of ``{options}``.

    It has the options of `fabric` alone, or without one those that are no fabric's.
    """
    if kind.__doc__ is not None:  # python -OO
        rows = (
            (f"{option.field} : {_shown_type(option)}; default: {option.shown_default()}",
             option.meaning)
            for option in DEVICE_OPTIONS
            if option.fabric == fabric
        )  # fmt: skip
        kind.__doc__ = kind.__doc__.replace(f"{INDENT}{{options}}", section(rows))
    return kind


def _shown_type(option: Option) -> str:
    return " or ".join(map(repr, option.choices)) or _TYPES[option.kind]


_TYPES = {
    Kind.TEXT: "str",
    Kind.TOKEN: "str, bytes or None",
    Kind.ENDPOINT: "str, host:port",
    Kind.NAMES: "sequence of str",
    Kind.COUNT: "int",
    Kind.SIZE: "int, bytes, or str like '512M'",
    Kind.SECONDS: "float, seconds, or str like '100ms'",
    Kind.SWITCH: "bool",
    Kind.PORTS: "str, first-last",
}
