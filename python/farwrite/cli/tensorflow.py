"""``farwrite tensorflow``: its arguments."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.cli_parser import deferred, writable_file

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]


def add_parser(subparsers: Subparsers, purpose: str) -> None:
    """Add the subcommand ``tensorflow``."""
    parser = subparsers.add_parser(
        "tensorflow",
        help=purpose,
        description="Manage the TensorFlow plug-in. Farwrite compiles it once for the installed"
        " TensorFlow, at the first use or with `farwrite tensorflow build`, and caches it.",
        epilog="Example: farwrite tensorflow build",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    build = actions.add_parser(
        "build",
        help="compile the plug-in now, unless it is cached",
        description="Print the path of the plug-in when it is compiled.",
        epilog="Example: farwrite tensorflow build --jobs 2",
    )
    build.add_argument(
        "--jobs",
        type=_jobs,
        metavar="N",
        help="number of files to compile at once (default: as many as CPUs and memory allow)",
    )
    build.set_defaults(run=deferred("farwrite.plugin.command:run_build"))
    shown = actions.add_parser(
        "info",
        help="show TensorFlow, plug-in, compiler and cache",
        description="The exit status is 1 if the plug-in is unavailable on this machine.",
        epilog="Example: farwrite tensorflow info",
    )
    shown.set_defaults(run=deferred("farwrite.plugin.command:run_info"))
    _add_analyze(actions)
    clean = actions.add_parser(
        "clean",
        help="delete the compiled plug-ins from the cache",
        description="Print how many bytes are freed. The next use compiles the plug-in again.",
        epilog="Example: farwrite tensorflow clean",
    )
    clean.set_defaults(run=deferred("farwrite.plugin.command:run_clean"))


def _add_analyze(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "analyze",
        help="list the edges between tasks of a saved graph",
        description="Print the shapes and sizes that TensorFlow infers for the tensors that a saved"
        " graph sends between tasks. The graph is not run.",
        epilog='Example: farwrite tensorflow analyze exported/ --place "ps.*=/job:ps/task:0"',
    )
    parser.add_argument(
        "model",
        type=Path,
        metavar="MODEL_OR_GRAPH",
        help="a SavedModel's folder, a MetaGraph (.meta) or a GraphDef (.pb, .pbtxt)",
    )
    parser.add_argument(
        "--place",
        action="append",
        default=[],
        type=_placement,
        metavar="REGEX=DEVICE",
        help="place the nodes whose whole name matches REGEX on DEVICE, for example"
        " 'dense.*=/job:ps/task:0'; this replaces the device in the graph, and the first match"
        " counts",
    )
    parser.add_argument(
        "--default-device", metavar="DEVICE", help="place the nodes without a device on DEVICE"
    )
    parser.add_argument(
        "--fetch",
        action="append",
        default=[],
        metavar="NODE",
        help="analyze only the nodes that a step runs if it fetches NODE (default: the"
        " signature's outputs, or the whole graph)",
    )
    parser.add_argument(
        "--signature",
        default="serving_default",
        metavar="NAME",
        help="signature of a SavedModel (default: %(default)s)",
    )
    parser.add_argument(
        "--json", type=writable_file, metavar="FILE", help="also write the edges to FILE"
    )
    parser.set_defaults(run=deferred("farwrite.plugin.analyze:run"))


def _jobs(text: str) -> int:
    jobs = int(text)
    if jobs < 1:
        raise argparse.ArgumentTypeError(f"{jobs} is not 1 or more")
    return jobs


def _placement(text: str) -> tuple[re.Pattern[str], str]:
    from farwrite.plugin.analyze import placement

    return placement(text)
