"""Checks a caller's arguments before the core receives them."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from typing import Any, SupportsIndex, TypeVar, cast

import numpy as np

from farwrite.errors import InvalidArgument

T = TypeVar("T")
_PLAIN = (float, int)
_YEARS = 1e9  # in seconds


def shown(value: object) -> str:
    """Return a caller's value for error messages, shortened."""
    if isinstance(value, int) and value.bit_length() > 128:  # hundreds of digits
        return f"(an int of {value.bit_length()} bits)"
    try:
        text = repr(value)
    except ValueError:  # Python writes no int of more than 4300 digits
        return f"(a {type(value).__name__})"
    return text if len(text) <= 80 else text[:77] + "..."


def index(operation: str, name: str, value: SupportsIndex) -> int:
    """Turn `value` into an int, as `operator.index` does, but no bool.

    Raises
    ------
    InvalidArgument
        If `value` is not a whole number.
    """
    if type(value) is int:  # nearly always, and then in no time
        return value
    try:
        if not isinstance(value, (bool, np.bool_)):
            return operator.index(value)
    except TypeError:
        pass  # said below
    raise InvalidArgument(
        f"{operation}: {name} {shown(value)} is not a whole number; give an int"
    ) from None


def whole_number(operation: str, name: str, value: SupportsIndex, low: int, high: int) -> int:
    """Turn `value` into an int from `low` to `high`.

    Raises
    ------
    InvalidArgument
        If `value` is not a whole number, or is out of range.
    """
    number = value if type(value) is int else index(operation, name, value)
    if not low <= number <= high:
        raise InvalidArgument(
            f"{operation}: {name} {shown(number)} is out of range; give a number from {low} to"
            f" {high}"
        )
    return number


def word(operation: str, name: str, value: SupportsIndex) -> int:
    """Turn `value` into an unsigned 32-bit number.

    Raises
    ------
    InvalidArgument
        If `value` is not a whole number, or does not fit.
    """
    number = value if type(value) is int else index(operation, name, value)
    if not 0 <= number < 2**32:
        raise InvalidArgument(
            f"{operation}: {name} {shown(number)} does not fit into 32 bits; give a number from"
            f" 0 to {2**32 - 1}"
        )
    return number


def lane_number(operation: str, lane: SupportsIndex) -> int:
    """Turn a lane into an int. The core refuses one that the channel does not have.

    Raises
    ------
    InvalidArgument
        If `lane` is not a whole number, or no channel can have it.
    """
    number = lane if type(lane) is int else index(operation, "lane", lane)
    if not 0 <= number < 2**32:
        raise InvalidArgument(
            f"{operation}: lane {shown(number)} is out of range; give a number from 0 to"
            " channel.peer.lanes - 1"
        )
    return number


def seconds(operation: str, timeout: float | None) -> float | None:
    """Check a timeout: 0 or more seconds, or None to wait for ever.

    Raises
    ------
    InvalidArgument
        If `timeout` is neither.
    """
    if timeout is None or (type(timeout) in _PLAIN and 0 <= timeout <= _YEARS):
        return timeout
    length = number(timeout)
    if not length >= 0:  # NaN is not
        raise InvalidArgument(
            f"{operation}: timeout {shown(timeout)} is not a length of time; give seconds >= 0,"
            " or None to wait without a limit"
        )
    return length


def number(value: Any) -> float:
    """Turn a number into a float; NaN for what is none, such as text, a bool or a complex number.

    An array without dimensions is the number in it, and other arrays are none.
    """
    if type(value) is float:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, _NO_NUMBERS):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def text(operation: str, what: str, value: str) -> str:
    """Check that `value` is text that can be sent.

    Raises
    ------
    InvalidArgument
        If `value` is not a str, or has lone surrogates, which UTF-8 cannot encode.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"{operation}: {what} {shown(value)} is not text; give a str")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{operation}: {what} {shown(value)} cannot be written as UTF-8 ({error.reason} at"
            f" position {error.start}); leave that character out"
        ) from None
    return value


def choice(operation: str, name: str, value: T, words: Collection[object]) -> T:
    """Return the one of `words` that `value` is: text, True, False or None.

    Numbers and NumPy's bools stand for True and False as in `switch`.

    Raises
    ------
    InvalidArgument
        If it is none of them.
    """
    if (value is None or isinstance(value, str)) and value in words:
        return value
    truth = _truth(value)
    if truth is not None and truth in words:
        return cast("T", truth)
    *others, last = map(repr, words)
    raise InvalidArgument(
        f"{operation}: {name} {shown(value)} is not known; give {', '.join(others)} or {last}"
    )


def instance(operation: str, value: object, kind: type[T], source: str) -> T:
    """Check that `value` is a `kind`; `source` says where to get one.

    Raises
    ------
    InvalidArgument
        If it is not.
    """
    if not isinstance(value, kind):
        raise InvalidArgument(
            f"{operation}: {type(value).__name__} is not a {kind.__name__}; {source}"
        )
    return value


def function(operation: str, name: str, value: Any, takes: str) -> Any:
    """Check that `value` can be called; `takes` says with what.

    Raises
    ------
    InvalidArgument
        If it cannot.
    """
    if not callable(value):
        raise InvalidArgument(
            f"{operation}: {name} is {type(value).__name__}, which cannot be called; give a"
            f" function that takes {takes}"
        )
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
    elif (truth := _truth(value)) is not None:
        return truth
    raise ValueError(f"{shown(value)} is neither on nor off; use True, False, 'on' or 'off'")


def _truth(value: object) -> bool | None:
    """Return the truth of 0, 1, False and True, also of NumPy; None of all else."""
    if isinstance(value, (int, np.integer, np.bool_)) and value in (0, 1):
        return bool(value)
    return None


# float() of a timedelta64 counts the unit that the value has, which need not be seconds.
_NO_NUMBERS = (
    str, bytes, bytearray, bool, np.bool_, np.complexfloating, np.timedelta64, np.datetime64,
    np.ndarray,
)  # fmt: skip
_ON = ("1", "true", "yes", "on")
_OFF = ("0", "false", "no", "off")
