"""The command ``farwrite``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from farwrite import cli_config, cli_info, cli_options
from farwrite.box import command as box
from farwrite.commands import Subparsers, add_commands
from farwrite.errors import Error
from farwrite.info import version
from farwrite.interrupts import kept_interrupts
from farwrite.log import LOG_LEVELS, set_log_level
from farwrite.plugin import command as plugin
from farwrite.run import command as run
from farwrite.trace import traced

# Each adds one subcommand with add_parser(subparsers), whose parser sets `run`, a function that
# takes the parsed arguments and returns the exit status.
COMMANDS = (cli_info, cli_config, cli_options, plugin, run, box)


def parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the subcommands of other packages.

    With the words of a command line, it parses that line alone: modules of commands that the words
    do not name are not imported.
    """
    top = argparse.ArgumentParser(
        prog="farwrite", description="One-sided memory writes between processes."
    )
    top.add_argument("--version", action="version", version=f"farwrite {version()}")
    top.add_argument(
        "--log",
        choices=LOG_LEVELS,
        help="log level of this command and its processes (default: FARWRITE_LOG, or warning)",
    )
    subparsers = top.add_subparsers(metavar="COMMAND", required=True, action=Subparsers)
    assert isinstance(subparsers, Subparsers)
    subparsers.words = words
    for command in COMMANDS:
        command.add_parser(subparsers)
    add_commands(subparsers)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parsed = parser(words).parse_args(words)
    try:
        if parsed.log is not None:
            set_log_level(parsed.log)
            os.environ["FARWRITE_LOG"] = parsed.log
        with kept_interrupts(), traced(getattr(parsed, "trace", None)):
            return int(parsed.run(parsed))
    except Error as error:
        print(f"farwrite: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("farwrite: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
