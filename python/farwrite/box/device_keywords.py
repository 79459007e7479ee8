"""The keywords of a `Device`, as a box's server or client passes them on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farwrite import _farwrite
from farwrite.errors import InvalidArgument
from farwrite.options import DEFAULT_TOKEN, Given, device_options, given_options
from farwrite.options_table import DEVICE_OPTIONS

_NAMES = frozenset(option.name for option in DEVICE_OPTIONS)


def parse_keywords(
    operation: str, keywords: Mapping[str, Any]
) -> tuple[_farwrite.DeviceOptions, dict[str, Given]]:
    """Turn keywords, and the environment for those not given, into the core's options.

    Raises
    ------
    InvalidArgument
        If a keyword is not one of `farwrite.Device`, or its value is not valid.
    """
    unknown = sorted(set(keywords) - _NAMES)
    if unknown:
        raise InvalidArgument(
            f"{operation}: '{unknown[0]}' is no keyword of {operation} nor of farwrite.Device;"
            " `farwrite options` lists those"
        )
    given = given_options({**dict.fromkeys(_NAMES), "token": DEFAULT_TOKEN, **keywords})
    return device_options(given), given
