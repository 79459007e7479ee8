"""Option: a row of `farwrite.options_table`, and the parser of its environment variable."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from farwrite.arguments import switch
from farwrite.errors import InvalidArgument
from farwrite.units import format_seconds, format_size, parse_seconds, parse_size


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
    """The type of an option's value. It selects the parser of the variable's text."""

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


@dataclass(frozen=True)
class Option:
    """One row of the table."""

    name: str
    """Keyword or command-line option; empty if only the variable exists."""
    variable: str
    """Environment variable; empty if the option has none."""
    places: tuple[Place, ...]
    kind: Kind
    default: Any
    """A Python value, or text in parentheses if the default depends on something else."""
    meaning: str
    choices: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        """Turn the variable's text into a value.

        Raises
        ------
        InvalidArgument
            If `text` is not a valid value; the message names the variable.
        """
        try:
            return self._parse(text.strip())
        except ValueError as error:
            raise InvalidArgument(f"{self.variable}={text}: {error}") from None

    def _parse(self, text: str) -> Any:
        if self.kind is Kind.TOKEN:
            return None if text == "none" else text
        if self.kind is Kind.SIZE:
            return parse_size(text)
        if self.kind is Kind.SECONDS:
            return parse_seconds(text)
        if self.kind is Kind.COUNT:
            if not text.removeprefix("-").isdecimal():
                raise ValueError(f"{text!r} is not a whole number")
            return int(text)
        if self.kind is Kind.SWITCH:
            return switch(text)
        if self.kind is Kind.NAMES:
            return tuple(name.strip() for name in text.split(",") if name.strip())
        if self.kind is Kind.CHOICE and text not in self.choices:
            raise ValueError(f"{text!r} is not one of {', '.join(self.choices)}")
        return text

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


def from_environment(
    option: Option, environment: Mapping[str, str] | None = None
) -> tuple[bool, Any]:
    """Read an option's variable. Return whether it is set, and its value.

    Raises
    ------
    InvalidArgument
        If the variable's text is not a valid value.
    """
    text = (os.environ if environment is None else environment).get(option.variable, "")
    return (True, option.parse(text)) if text and option.variable else (False, None)
