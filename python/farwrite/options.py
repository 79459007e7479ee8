"""Reads the options of a `Device` from keywords and the environment, and checks them."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from farwrite import _farwrite
from farwrite.arguments import switch, text
from farwrite.errors import InvalidArgument
from farwrite.option import from_environment
from farwrite.options_table import DEVICE_OPTIONS

HugePages = Literal["off", "transparent", "explicit"]


class DefaultToken(enum.Enum):
    """The type of `DEFAULT_TOKEN`."""

    DEFAULT_TOKEN = "default"

    def __repr__(self) -> str:
        return "farwrite.DEFAULT_TOKEN"


DEFAULT_TOKEN: Literal[DefaultToken.DEFAULT_TOKEN] = DefaultToken.DEFAULT_TOKEN
"""The default `token` of a `Device`: this user's cookie. None means no token."""


class Given(NamedTuple):
    """The value of an option, and the option's name in an error."""

    name: str
    value: Any

    def error(self, what: str) -> InvalidArgument:
        """Return an error that names the option and what is wrong with its value."""
        return InvalidArgument(f"Device: {self.name} {what}")


def given_options(keywords: Mapping[str, Any]) -> dict[str, Given]:
    """Collect the options that are set: by keyword, or else in the environment.

    None means "not set". For `token`, `DEFAULT_TOKEN` means "not set".

    Raises
    ------
    InvalidArgument
        If a variable's text is not a valid value; the message names the variable.
    """
    given = {}
    for option in DEVICE_OPTIONS:
        value = keywords[option.name]
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
    options = _farwrite.DeviceOptions()
    for name, option in given.items():
        try:
            _SETTERS[name](options, option)
        except InvalidArgument as error:
            if option.name in str(error):
                raise
            raise option.error(f"cannot be {option.value!r}: {error}") from None
    if "port" in given and "listen" in given:
        raise InvalidArgument(
            f"Device: listen={given['listen'].value!r} and port={given['port'].value!r} both set"
            " the address to listen at; give one of them"
        )
    # A limit that was raised holds for a single peer as well.
    if "send_limit_per_peer" not in given:
        options.send_limit_per_peer = options.send_limit
    if "receive_limit_per_peer" not in given:
        options.receive_limit_per_peer = options.receive_limit
    return options


def _count(option: Given, low: int, high: int, unit: str = "") -> int:
    try:
        count = operator.index(option.value)
    except TypeError:
        raise option.error(f"{option.value!r} is not a whole number") from None
    if not low <= count <= high:
        raise option.error(f"{unit}{count} is outside of {low} to {high}")
    return count


def _some(option: Given) -> int:
    return _count(option, 1, 2**31)


def _text(option: Given) -> str:
    if not isinstance(option.value, str) or not option.value:
        raise option.error(f"{option.value!r} is not a name")
    return text("Device", option.name, option.value)


def _bytes(option: Given) -> int:
    return _count(option, 1, 2**63 - 1, "(bytes) ")


def _limit(option: Given) -> int:
    return _count(option, _farwrite.MIN_MEMORY_LIMIT, 2**63 - 1, "(bytes) ")


def _switch(option: Given) -> bool:
    try:
        return switch(option.value)
    except ValueError as error:
        raise option.error(str(error)) from None


def _seconds(option: Given) -> float:
    try:
        seconds = float(option.value)
    except (TypeError, ValueError, OverflowError):
        raise option.error(f"{option.value!r} is not a number of seconds") from None
    if not (math.isfinite(seconds) and seconds >= 0):
        raise option.error(f"{seconds} is not a length of time in seconds")
    return seconds


def _listen(options: _farwrite.DeviceOptions, option: Given) -> None:
    options.set_listen(text("Device", option.name, option.value))


def _port(options: _farwrite.DeviceOptions, option: Given) -> None:
    options.set_listen(f"127.0.0.1:{_count(option, 0, 65535)}")


def _fabrics(options: _farwrite.DeviceOptions, option: Given) -> None:
    if isinstance(option.value, str):
        names = [name.strip() for name in option.value.split(",")]
        raise option.error(f"{option.value!r} is text; give a list: {names}")
    if not isinstance(option.value, Iterable):
        raise option.error(f"{option.value!r} is not a list; give one, for example ['shm']")
    names = [text("Device", option.name, name) for name in option.value]
    if not names:
        raise option.error("is empty; name at least one, for example ['shm']")
    options.set_fabrics(names)


def _huge_pages(options: _farwrite.DeviceOptions, option: Given) -> None:
    options.set_huge_pages(text("Device", option.name, option.value))


def _token(options: _farwrite.DeviceOptions, option: Given) -> None:
    if option.value is None:
        options.set_token(None)
        return
    if not isinstance(option.value, (str, bytes)):
        raise option.error(f"is {type(option.value).__name__}; give str, bytes or None")
    if not option.value:
        raise option.error("is empty; give token=None to use no token")
    if isinstance(option.value, str):
        try:
            options.set_token(option.value.encode())
        except UnicodeEncodeError:  # its text would show the token
            raise option.error("cannot be written as UTF-8; give bytes") from None
    else:
        options.set_token(option.value)


def _set_to(name: str, convert: Any) -> Any:
    return lambda options, option: setattr(options, name, convert(option))


_SETTERS: dict[str, Any] = {
    "listen": _listen,
    "port": _port,
    "name": _set_to("name", _text),
    "fabrics": _fabrics,
    "token": _token,
    "encrypt": _set_to("encrypt", _switch),
    "pollers": _set_to("pollers", lambda option: _count(option, 1, _farwrite.MAX_POLLERS)),
    "lanes": _set_to("lanes", lambda option: _count(option, 1, _farwrite.MAX_LANES)),
    "spin": lambda options, option: options.set_spin(_seconds(option)),
    "send_limit": _set_to("send_limit", _limit),
    "send_limit_per_peer": _set_to("send_limit_per_peer", _bytes),
    "receive_limit": _set_to("receive_limit", _limit),
    "receive_limit_per_peer": _set_to("receive_limit_per_peer", _limit),
    "segment_bytes": _set_to("segment_bytes", _bytes),
    "receive_segment_bytes": _set_to("receive_segment_bytes", _bytes),
    "huge_pages": _huge_pages,
    "prefault": _set_to("prefault", _switch),
    "numa_node": _set_to("numa_node", lambda option: _count(option, -1, 1023)),
    "detection_time": lambda options, option: options.set_detection_time(_seconds(option)),
    "handshake_timeout": lambda options, option: options.set_handshake_timeout(_seconds(option)),
    "data_port": _set_to("data_port", lambda option: _count(option, 0, 65535)),
    "host_timeout": lambda options, option: options.set_host_timeout(_seconds(option)),
    "verbs_device": _set_to("verbs_device", _text),
    "verbs_port": _set_to("verbs_port", lambda option: _count(option, 1, 255)),
    "verbs_gid_index": _set_to("verbs_gid_index", lambda option: _count(option, 0, 65535)),
    "verbs_send_queue_depth": _set_to("verbs_send_queue_depth", _some),
    "verbs_receive_credits": _set_to("verbs_receive_credits", _some),
    "verbs_chunk_bytes": _set_to("verbs_chunk_bytes", _bytes),
    "verbs_signal_every": _set_to("verbs_signal_every", _some),
    "verbs_inline_bytes": _set_to("verbs_inline_bytes", lambda option: _count(option, 0, 2**31)),
    "verbs_retry_count": _set_to("verbs_retry_count", lambda option: _count(option, 0, 7)),
    "verbs_rnr_retry_count": _set_to("verbs_rnr_retry_count", lambda option: _count(option, 0, 7)),
    "verbs_relaxed_ordering": _set_to("verbs_relaxed_ordering", _switch),
    "verbs_use_immediate": _set_to("verbs_use_immediate", _switch),
    "metrics": lambda options, option: None,  # not the core's: see farwrite.metrics
}
