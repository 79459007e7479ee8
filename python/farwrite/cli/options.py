"""``farwrite options``: its arguments."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from farwrite.cli_parser import deferred

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]


def add_parser(subparsers: Subparsers, purpose: str) -> None:
    """Add the subcommand ``options``."""
    parser = subparsers.add_parser(
        "options",
        help=purpose,
        description="Print every option: keyword or command-line option, environment variable,"
        " where it works, type, default and meaning. Then print the options that the environment"
        " sets, and why a value is refused. The status is 1 if one is.",
        epilog="Example: farwrite options --json",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    parser.set_defaults(run=deferred("farwrite.options.command:run"))
