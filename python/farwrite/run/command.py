"""What ``farwrite run`` does."""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path

from farwrite.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unsupported,
)
from farwrite.plugin.build import ensure_built
from farwrite.run.child import Run, run_command, say
from farwrite.run.grpc import run_grpc
from farwrite.run.grpc_component import PRELOADED, find_component
from farwrite.run.inside import OR_GRPC
from farwrite.run.program import check_program
from farwrite.run.report import as_json, table
from farwrite.run.standard_input import StandardInput

NO_PROGRAM = 126
NO_SUCH_COMMAND = 127
"""The exit statuses that a shell gives in these cases."""
NAMED = "farwrite run -- python train.py"


def run(arguments: argparse.Namespace) -> int:
    """Run the command once or twice, and report the results."""
    command: list[str] = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        example = "farwrite run --grpc -- ./server" if arguments.grpc else NAMED
        raise InvalidArgument(f"farwrite run: name a command: {example}")
    if arguments.grpc:
        return _run_grpc(command, arguments)
    if arguments.require:
        raise InvalidArgument("farwrite run: --require needs --grpc")
    try:
        check_program(command[0])
    except (NotFound, PermissionDenied) as error:
        return _not_started(error)
    _build_first()
    options = {"FARWRITE_TF_ALLOCATION": arguments.allocation} if arguments.allocation else {}
    if arguments.or_grpc:
        options[OR_GRPC] = "1"
    try:
        runs = _runs(command, options, compare=arguments.compare)
    except (NotFound, PermissionDenied) as error:
        return _not_started(error)
    if arguments.json is not None:
        _write(arguments.json, json.dumps(as_json(command, runs), indent=2) + "\n")
    if arguments.report is not None:
        from farwrite.run.page import html

        _write(arguments.report, html(command, runs))
    # The program's own output stays alone in stdout.
    say("\n".join(table(runs)))
    return runs[-1].exit_status


def _run_grpc(command: list[str], arguments: argparse.Namespace) -> int:
    for option in ("compare", "allocation", "or_grpc", "json", "report"):
        if getattr(arguments, option):
            name = option.replace("_", "-")
            raise InvalidArgument(f"farwrite run: --{name} is for TensorFlow, not for --grpc")
    library = find_component() / PRELOADED
    try:
        return run_grpc(command, library, require=arguments.require)
    except (NotFound, PermissionDenied) as error:
        return _not_started(error)


def _not_started(error: NotFound | PermissionDenied) -> int:
    say(str(error))
    return NO_SUCH_COMMAND if isinstance(error, NotFound) else NO_PROGRAM


def _runs(command: list[str], options: dict[str, str], *, compare: bool) -> list[Run]:
    if not compare:
        return [run_command(command, stock=False, options=options, look=False)]
    runs: list[Run] = []
    with contextlib.closing(StandardInput()) as given:
        for name, stock in (("stock gRPC", True), ("Farwrite", False)):
            say(f"farwrite run: {name} ...")
            with given.for_one_run() as stdin:
                runs.append(
                    run_command(command, stock=stock, options=options, look=True, stdin=stdin)
                )
            status = runs[-1].exit_status
            if stock and status != 0:
                say(
                    f"farwrite run: the run on {name} ended with status {status}; the run on"
                    " Farwrite is left out, because there is no result to compare it with"
                )
                break
    return runs


def _build_first() -> None:
    # So that compiling is not in the figures. The command may never import TensorFlow, and its
    # Python may be another one: a process that needs the plug-in reports what is missing.
    begun = False

    def before() -> None:
        nonlocal begun
        begun = True
        say(
            "farwrite run: compiling the TensorFlow plug-in first; a program that never imports"
            " TensorFlow needs neither the plug-in nor `farwrite run`"
        )

    try:
        ensure_built(before=before)
    except (FailedPrecondition, PermissionDenied, Unsupported) as error:
        if begun:  # the user has waited for it
            say(f"farwrite run: {error}")


def _write(path: Path, text: str) -> None:
    # The program has run: what it found must not be lost behind our own failure.
    try:
        path.write_text(text)
    except OSError as error:
        say(f"farwrite run: cannot write {path}: {error.strerror}")
