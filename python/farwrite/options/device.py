"""Collects the options of a `Device` from keywords and the environment. The core checks them."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, ParamSpec

import numpy as np

from farwrite import _farwrite
from farwrite.arguments import index, number, shown, switch, text
from farwrite.errors import InvalidArgument
from farwrite.nearest import did_you_mean
from farwrite.options.option import Kind, Option, from_environment
from farwrite.options.table import DEVICE_OPTIONS
from farwrite.options.verbs import VerbsOptions

P = ParamSpec("P")
HugePages = Literal["off", "transparent", "explicit"]


class DefaultToken(enum.Enum):
    """The type of `DEFAULT_TOKEN`."""

    DEFAULT_TOKEN = "default"

    def __repr__(self) -> str:
        return "farwrite.DEFAULT_TOKEN"


DEFAULT_TOKEN: Literal[DefaultToken.DEFAULT_TOKEN] = DefaultToken.DEFAULT_TOKEN
"""The default `token` of a `Device`: this user's cookie. None means no token."""


KEYWORDS = frozenset(option.fabric or option.name for option in DEVICE_OPTIONS)
"""The keywords of a `Device`."""


class Given(NamedTuple):
    """The value of an option, and the option's name in an error."""

    name: str
    value: Any

    def error(self, what: str) -> InvalidArgument:
        """Return an error that names the option and what is wrong with its value."""
        remedy = "" if "; " in what else "; give one, or leave the option out"
        return InvalidArgument(f"Device: {self.name} {what}{remedy}")


def check_keywords(operation: str, keywords: Iterable[str], own: Iterable[str] = ()) -> None:
    """Check that the keywords of `operation` are keywords of a `Device`.

    `own` are the others that `operation` has.

    Raises
    ------
    TypeError
        If one is not; the message has the nearest one, or says how to list them.
    """
    for name in sorted({*keywords} - KEYWORDS):
        near = did_you_mean(name, {*KEYWORDS, *own}).removeprefix("; ")
        remedy = near or "`farwrite options` lists them"
        if name.startswith("token_"):
            remedy = (
                "set FARWRITE_TOKEN_FILE to the file, or give"
                " token=pathlib.Path(file).read_text().strip()"
            )
        for option in DEVICE_OPTIONS:
            if option.fabric and name == f"{option.fabric}_{option.field}":
                remedy = f"give {option.fabric}=farwrite.VerbsOptions({option.field}=...)"
        raise TypeError(f"{operation}: {name!r} is no keyword of farwrite.Device; {remedy}")


def checks_keywords(init: Callable[P, None]) -> Callable[P, None]:
    """Let the constructor of `Device` call `check_keywords` before Python refuses a keyword."""

    @functools.wraps(init)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> None:
        check_keywords("Device", keywords)
        init(*arguments, **keywords)

    return checked


def given_options(keywords: Mapping[str, Any]) -> dict[str, Given]:
    """Collect the options that are set: by keyword, or else in the environment.

    None means "not set". For `token`, `DEFAULT_TOKEN` means "not set".

    Raises
    ------
    InvalidArgument
        If `verbs` is no `VerbsOptions`.
    """
    verbs = VerbsOptions() if keywords["verbs"] is None else keywords["verbs"]
    if not isinstance(verbs, VerbsOptions):
        raise InvalidArgument(
            f"Device: verbs {shown(verbs)} is not the options of verbs; give"
            " farwrite.VerbsOptions(device=...)"
        )
    given = {}
    for option in DEVICE_OPTIONS:
        value = getattr(verbs, option.field) if option.fabric else keywords[option.name]
        if value is not (DEFAULT_TOKEN if option.name == "token" else None):
            given[option.name] = Given(option.name, value)
            continue
        if option.name == "listen" and keywords["port"] is not None:
            continue  # the port says it
        found, value = from_environment(option)
        if found:
            given[option.name] = Given(option.variable, value)
    return given


def device_options(given: Mapping[str, Given]) -> _farwrite.DeviceOptions:
    """Turn the set options into the core's options; the others keep the core's defaults.

    Raises
    ------
    InvalidArgument
        If a value is not valid; the message names the keyword or the variable.
    """
    if "port" in given and "listen" in given:
        raise InvalidArgument(
            f"Device: listen={given['listen'].value!r} and port={given['port'].value!r} both set"
            " the address to listen at; give one of them"
        )
    options = _farwrite.DeviceOptions()
    for option in DEVICE_OPTIONS:
        if option.name not in given or option.name == "metrics":  # farwrite.metrics reads it
            continue
        one = given[option.name]
        if option.kind is Kind.TOKEN:
            options.set_token(_token(one))
        else:
            _set(options, option.name, one, _text(option, one))
    # A limit that was raised holds for a single peer as well.
    for limit in ("send_limit", "receive_limit"):
        if f"{limit}_per_peer" not in given and limit in given:
            _set(options, f"{limit}_per_peer", given[limit], str(getattr(options, limit)))
    return options


def _set(options: _farwrite.DeviceOptions, name: str, given: Given, text: str) -> None:
    fault = options.set(name, text)
    if fault:
        raise given.error(f"{shown(given.value)} {fault}")


def _text(option: Option, given: Given) -> str:
    """Turn the value of a keyword into the text that its variable would have."""
    value, kind = given.value, option.kind
    if given.name == option.variable and isinstance(value, str):
        return text("Device", given.name, value)
    if kind in (Kind.SIZE, Kind.SECONDS) and isinstance(value, str):
        return text("Device", given.name, value)
    if kind in (Kind.COUNT, Kind.SIZE):
        count = index("Device", given.name, value)
        if count.bit_length() > 64:  # Python writes no int of more than 4300 digits
            raise given.error(f"{shown(value)} is not a number of at most 64 bits")
        return str(count)
    if kind is Kind.SECONDS:
        length = number(value)
        if math.isnan(length):
            raise given.error(f"{shown(value)} is not a number of seconds")
        return repr(length)
    if kind is Kind.SWITCH:
        try:
            return "on" if switch(value) else "off"
        except ValueError as error:
            raise given.error(str(error)) from None
    if kind is Kind.NAMES:
        if isinstance(value, str):
            names = [name.strip() for name in value.split(",")]
            raise given.error(f"{shown(value)} is text; give a list: {names}")
        # An array without dimensions says that it can be iterated.
        if not isinstance(value, Iterable) or (isinstance(value, np.ndarray) and value.ndim == 0):
            raise given.error(f"{shown(value)} is not a list; give one, for example ['shm']")
        return ",".join(text("Device", given.name, name) for name in value)
    return text("Device", given.name, value)


def _token(given: Given) -> bytes | None:
    if given.value is None:
        return None
    if not isinstance(given.value, (str, bytes)):
        raise given.error(f"is {type(given.value).__name__}; give str, bytes or None")
    if not given.value:
        raise given.error("is empty; give token=None to use no token")
    if isinstance(given.value, bytes):
        return given.value
    try:
        return given.value.encode()
    except UnicodeEncodeError:  # its text would show the token
        raise given.error("cannot be written as UTF-8; give bytes") from None
