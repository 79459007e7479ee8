"""Checks a caller's arguments before the core receives them."""

from __future__ import annotations

import math
import operator
from typing import Any, SupportsIndex

import numpy as np

from farwrite.errors import InvalidArgument


def whole_number(operation: str, name: str, value: SupportsIndex, low: int, high: int) -> int:
    """Turn `value` into an int from `low` to `high`.

    Raises
    ------
    InvalidArgument
        If `value` is not a whole number, or is out of range.
    """
    number = _index(operation, name, value)
    if not low <= number <= high:
        raise InvalidArgument(
            f"{operation}: {name} {number} is out of range; give a number from {low} to {high}"
        )
    return number


def word(operation: str, name: str, value: SupportsIndex) -> int:
    """Turn `value` into an unsigned 32-bit number.

    Raises
    ------
    InvalidArgument
        If `value` is not a whole number, or does not fit.
    """
    number = _index(operation, name, value)
    if not 0 <= number < 2**32:
        raise InvalidArgument(
            f"{operation}: {name} {number} does not fit into 32 bits; give a number from 0 to"
            f" {2**32 - 1}"
        )
    return number


def seconds(operation: str, timeout: float | None) -> float | None:
    """Check a timeout: 0 or more seconds, or None to wait for ever.

    Raises
    ------
    InvalidArgument
        If `timeout` is neither.
    """
    if timeout is None:
        return None
    given: Any = timeout
    try:
        length = math.nan if isinstance(given, str) else float(given)
    except (TypeError, ValueError, OverflowError):
        length = math.nan
    if not length >= 0:  # NaN is not
        raise InvalidArgument(
            f"{operation}: timeout {timeout!r} is not a length of time; give seconds >= 0, or None"
            " to wait without a limit"
        )
    return length


def text(operation: str, what: str, value: str) -> str:
    """Check that `value` is text that can be sent.

    Raises
    ------
    InvalidArgument
        If `value` is not a str, or has lone surrogates, which UTF-8 cannot encode.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"{operation}: {what} {value!r} is not text; give a str")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{operation}: {what} {value!a} cannot be written as UTF-8 ({error.reason} at position"
            f" {error.start}); leave that character out"
        ) from None
    return value


def flag(operation: str, name: str, value: object) -> bool:
    """Check an on-or-off value.

    Raises
    ------
    InvalidArgument
        If `value` is neither; see `switch`.
    """
    try:
        return switch(value)
    except ValueError as error:
        raise InvalidArgument(f"{operation}: {name} {error}") from None


def switch(value: object) -> bool:
    """Turn an on-or-off value of a caller or an environment variable into a bool.

    Raises
    ------
    ValueError
        If `value` is neither. The accepted words are 1, true, yes, on, 0, false, no and off.
    """
    if isinstance(value, str):
        said = value.strip().lower()
        if said in _ON or said in _OFF:
            return said in _ON
    elif isinstance(value, (int, np.bool_)) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{value!r} is neither on nor off; use True, False, 'on' or 'off'")


def _index(operation: str, name: str, value: SupportsIndex) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidArgument(
            f"{operation}: {name} {value!r} is not a whole number; give an int"
        ) from None


_ON = ("1", "true", "yes", "on")
_OFF = ("0", "false", "no", "off")
