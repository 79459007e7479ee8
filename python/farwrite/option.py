"""What an option is: a row of `farwrite.options_table`, and how its variable is read."""

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
    """Every process that has Farwrite loaded, from whatever language."""
    PLUGIN = "plug-in"
    """The device of the plug-in for TensorFlow, and the plug-in."""
    CLI = "command line"
    BUILD = "build"
    TESTS = "tests"


class Kind(enum.Enum):
    """What an option's value is, and how text is read."""

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
    """Keyword, or option of a command; empty if there is only the variable."""
    variable: str
    """In the environment; empty if there is none."""
    places: tuple[Place, ...]
    kind: Kind
    default: Any
    """As Python has it; text in parentheses where it depends on something."""
    meaning: str
    choices: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        """Turn the variable's text into a value.

        Raises
        ------
        InvalidArgument
            If it is none; the message names the variable.
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
        """Give type and unit, for people."""
        return " | ".join(self.choices) if self.kind is Kind.CHOICE else str(self.kind.value)

    def shown_default(self) -> str:
        """Give the default, for people."""
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
    """Read an option's variable: whether it is set to something, and its value.

    Raises
    ------
    InvalidArgument
        If its text is no value.
    """
    text = (os.environ if environment is None else environment).get(option.variable, "")
    return (True, option.parse(text)) if text and option.variable else (False, None)
