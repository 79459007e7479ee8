"""``farwrite options``: every option, its environment variable, type, default and meaning."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from collections.abc import Iterator, Mapping

from farwrite import _farwrite
from farwrite.errors import Error
from farwrite.metrics.endpoint import parse_address
from farwrite.nearest import NEARLY_EQUAL, did_you_mean
from farwrite.options.device import Given, device_options
from farwrite.options.option import Option, from_environment
from farwrite.options.table import DEVICE_OPTIONS, HEADERS, OPTIONS, row, rows
from farwrite.plugin.build import allowed_jobs

_MEANING_WIDTH = 92
_SECRET = {"FARWRITE_TOKEN"}


def run(arguments: argparse.Namespace) -> int:
    """Print the table or the JSON list. Return 1 if a value in the environment is refused."""
    given = [option for option in OPTIONS if _is_set(option)]
    values = {option.variable: _value(option) for option in given}
    refusals = {option.variable: reason for option in given if (reason := refusal(option))}
    if arguments.json:
        listed = [
            {
                **dict(zip(HEADERS, row(option), strict=True)),
                "set": values.get(option.variable),
                "refused": refusals.get(option.variable),
            }
            for option in OPTIONS
        ]
        print(json.dumps(listed, indent=2))
    else:
        print("\n".join([*table(), "", *environment(values, refusals)]))
    return 1 if refusals else 0


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    for name, variable, where, kind, default, meaning in rows():
        names = "  ".join(filter(None, (name, variable)))
        yield f"{names}"
        yield f"    {where}; {kind}; default: {default}"
        yield from textwrap.wrap(
            meaning, _MEANING_WIDTH, initial_indent="    ", subsequent_indent="    "
        )


def environment(values: Mapping[str, str], refusals: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines about the variables that are set; the two are by variable."""
    yield "Set in this environment:"
    for variable, value in values.items():
        yield f"    {variable}={value}"
        if variable in refusals:
            yield f"        refused: {refusals[variable]}"
    if not values:
        yield "    none"
    known = [option.variable for option in OPTIONS if option.variable]
    for name in sorted(os.environ):
        if name.startswith("FARWRITE_") and name not in known:
            near = did_you_mean(name, known, NEARLY_EQUAL)
            if near:  # others are set by commands for the processes that they start
                yield f"    {name} is no option{near}"


def refusal(option: Option) -> str:
    """Return why the library refuses what the option's variable is set to, or nothing.

    A file that does not exist yet is not made. A value that only another option makes wrong, such
    as an address without a token, is not refused here.
    """
    try:
        if option in DEVICE_OPTIONS:
            _, value = from_environment(option)
            given = Given(option.variable, value)
            if option.name == "metrics":
                parse_address(value)
            else:
                device_options({option.name: given}).check()
        elif option.variable == "FARWRITE_JOBS":
            allowed_jobs()
        else:
            _farwrite.check_variable(option.variable)
    except Error as error:
        return str(error)
    return ""


def _is_set(option: Option) -> bool:
    return bool(option.variable and os.environ.get(option.variable, ""))


def _value(option: Option) -> str:
    return "***" if option.variable in _SECRET else os.environ[option.variable]
