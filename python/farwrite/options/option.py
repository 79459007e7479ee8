"""Option: a row of `farwrite.options.table`."""

from __future__ import annotations

import enum
import os
from typing import Any, NamedTuple

from farwrite.units import format_seconds, format_size


class Place(enum.Enum):
    """Where an option works."""

    DEVICE = "device"
    """`farwrite.Device` in Python. C++ programs set the field of DeviceOptions."""
    PROCESS = "process"
    """Every process that has loaded Farwrite, in any language."""
    PLUGIN = "plug-in"
    """The TensorFlow plug-in and its device."""
    GRPC = "gRPC"
    """gRPC programs under ``farwrite run --grpc``, and programs that link the component."""
    CLI = "command line"
    BUILD = "build"
    TESTS = "tests"


class Kind(enum.Enum):
    """The type of an option's value."""

    TEXT = "text"
    TOKEN = "text, or none"
    ENDPOINT = "host:port"
    NAMES = "names, with commas"
    COUNT = "number"
    SIZE = "bytes, or 512M"
    SECONDS = "seconds, or 100ms"
    SWITCH = "on or off"
    CHOICE = "one of"
    FILE = "file"
    PORTS = "first-last"


class Option(NamedTuple):
    """One row of the table."""

    name: str
    """Keyword or command-line option; empty if only the variable exists. ``verbs.port`` is the
    field `port` of the keyword `verbs`."""
    variable: str
    """Environment variable; empty if the option has none."""
    places: tuple[Place, ...]
    kind: Kind
    default: Any
    """A Python value, or text in parentheses if the default depends on something else."""
    meaning: str
    choices: tuple[str, ...] = ()

    @property
    def fabric(self) -> str:
        """The keyword that has the options of the one fabric that reads this one, or nothing."""
        return self.name.rpartition(".")[0]

    @property
    def field(self) -> str:
        """The name without that keyword."""
        return self.name.rpartition(".")[2]

    def shown_type(self) -> str:
        """Return the type and the unit as text."""
        return " | ".join(self.choices) if self.kind is Kind.CHOICE else str(self.kind.value)

    def shown_default(self) -> str:
        """Return the default as text."""
        if self.default is None:
            return "none"
        if isinstance(self.default, str):
            return self.default or "none"
        if self.kind is Kind.SIZE:
            return format_size(self.default)
        if self.kind is Kind.SECONDS:
            return format_seconds(self.default)
        if self.kind is Kind.SWITCH:
            return "on" if self.default else "off"
        if self.kind is Kind.NAMES:
            return ",".join(self.default)
        return str(self.default)


def from_environment(option: Option) -> tuple[bool, Any]:
    """Read an option's variable. Return whether it is set, and its value.

    The value is text, which the core parses. A token and a list are what the keyword takes.
    """
    text = os.environ.get(option.variable, "").strip() if option.variable else ""
    if option.kind is Kind.TOKEN:
        return bool(text), None if text == "none" else text
    if option.kind is Kind.NAMES:
        return bool(text), [name.strip() for name in text.split(",")]
    return bool(text), text
