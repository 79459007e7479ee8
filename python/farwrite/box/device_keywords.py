"""The keywords of a `Device`, as a box's server or client passes them on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from farwrite import _farwrite
from farwrite.options.device import (
    DEFAULT_TOKEN,
    KEYWORDS,
    Given,
    check_keywords,
    device_options,
    given_options,
)


def parse_keywords(
    operation: str, keywords: Mapping[str, Any], own: Iterable[str]
) -> tuple[_farwrite.DeviceOptions, dict[str, Given]]:
    """Turn keywords, and the environment for those not given, into the core's options.

    `own` are the keywords that `operation` has besides.

    Raises
    ------
    TypeError
        If a keyword is not one of `farwrite.Device`.
    InvalidArgument
        If its value is not valid.
    """
    check_keywords(operation, keywords, own)
    given = given_options({**dict.fromkeys(KEYWORDS), "token": DEFAULT_TOKEN, **keywords})
    return device_options(given), given
