"""The command line of farwrite run: its mistakes, and what it says before and after a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from farwrite import cli
from farwrite.errors import FailedPrecondition
from farwrite.run import command
from farwrite.run.child import Run
from farwrite.run.page import html
from farwrite.run.report import as_json, rows, table
from farwrite.run.summary import Writer, read_summaries


@pytest.mark.parametrize(
    ("words", "prog", "message"),
    [
        (["run"], "farwrite run", "name a command: farwrite run -- python train.py"),
        (["run", "--require", "--", "ls"], "farwrite run", "--require needs --grpc"),
        (["run", "--grpc", "--compare", "--", "ls"], "farwrite run", "--compare is for TensorFlow"),
        (["box", "serve", "--restore"], "farwrite box serve", "--restore and --snapshot-every"),
    ],
)
def test_a_wrong_use_is_answered_like_a_wrong_option(
    words: list[str], prog: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"usage: {prog} ")
    assert f"\n{prog}: {message}" in error


def test_all_messages_have_one_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--nonsense"])
    assert "\nfarwrite run: unrecognized arguments: --nonsense" in capsys.readouterr().err


PROGRAM = (
    "import sys; from farwrite import cli; from farwrite.run import command;"
    " command._build_first = lambda: None; sys.exit(cli.main(sys.argv[1:]))"
)
"""The command line, which compiles nothing first."""
_CLOSED = "farwrite: the output is lost: standard output is not open for writing; open it"
_FULL = "farwrite: the output is lost: No space left"
STREAMS = {
    "no output": ("run -- sh -c 'exit 7' >&-", 7, ""),
    "no output of a command": ("info >&-", 1, _CLOSED),
    "no output of a help": ("box serve --help >&-", 1, _CLOSED),
    "no output of the version": ("--version >&-", 1, _CLOSED),
    "no output and a wrong use": ("box serve --nonsense >&-", 2, "unrecognized arguments"),
    "no input": ("run --compare -- true <&-", 0, ""),
    "full": ("info >/dev/full", 1, _FULL),
    "a help that is full": ("--help >/dev/full", 1, _FULL),
    "a help of a command that is full": ("run --help >/dev/full", 1, _FULL),
    "full beside": ("run --compare -- echo hi >/dev/full", 1, "what the command wrote is lost"),
}


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("words", "status", "message"), STREAMS.values(), ids=STREAMS.keys())
def test_streams_that_are_closed_or_full_end_in_no_traceback(
    words: str, status: int, message: str, unbuffered: str
) -> None:
    script = f'"{sys.executable}" -c "$0" {words}'
    ended = subprocess.run(
        ["sh", "-c", script, PROGRAM],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert "Traceback" not in ended.stderr
    assert (ended.returncode, message in ended.stderr) == (status, True), ended.stderr


def test_no_room_for_temporary_files_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    monkeypatch.setattr(command, "_build_first", lambda: None)
    assert cli.main(["run", "--", "true"]) == 1
    assert "set TMPDIR to a folder that can be written" in capsys.readouterr().err


@pytest.mark.parametrize("broken", [True, False])
def test_a_lost_standard_error_loses_neither_figures_nor_exit_status(
    broken: bool, tmp_path: Path
) -> None:
    figures, page = tmp_path / "figures.json", tmp_path / "page.html"
    words = ["run", "--json", str(figures), "--report", str(page), "--", "sh", "-c", "exit 3"]
    script = 'exec "$@"' if broken else 'exec "$@" 2>&-'
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        ended = subprocess.run(
            ["sh", "-c", script, "sh", sys.executable, "-c", PROGRAM, *words],
            stdout=subprocess.PIPE,
            stderr=pipe,
            text=True,
        )
    assert (ended.returncode, ended.stdout) == (3, "")
    assert json.loads(figures.read_text())["runs"][0]["exit_status"] == 3
    assert "<html" in page.read_text()


def test_a_program_without_tensorflow_is_told_so_before_anything_is_compiled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def compiles(before: Callable[[], None]) -> None:
        before()
        said.append(capsys.readouterr().err)

    monkeypatch.setattr(command, "ensure_built", compiles)
    assert cli.main(["run", "--", "true"]) == 0
    assert "a program that never imports TensorFlow needs neither" in said[0]


@pytest.mark.parametrize("begins", [True, False])
def test_a_compile_is_told_of_only_if_it_begins_and_then_also_how_it_fails(
    begins: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(before: Callable[[], None]) -> None:
        if begins:
            before()
        raise FailedPrecondition("TensorFlow plug-in: g++ ended with status 1")

    monkeypatch.setattr(command, "ensure_built", fails)
    assert cli.main(["run", "--", "true"]) == 0
    told = capsys.readouterr().err
    assert ("compiling the TensorFlow plug-in" in told) == begins
    assert ("g++ ended with status 1" in told) == begins


def test_the_table_says_which_copies_those_of_collectives_are(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path / "summary"))
    writer.stats = lambda: {"copies": 21, "collective_copies": 20, "collective_staged": 1}
    writer.end()
    run = Run("farwrite", 1.0, 0, None, tuple(read_summaries(tmp_path / "summary")))
    figures = {name.strip(): texts[0] for name, texts in rows([run])}
    assert figures["copies of tensors"] == "21"
    assert (figures["collective copies"], figures["collective staged"]) == ("20", "1")


def test_the_summary_names_the_processes_whose_last_counters_are_missing(tmp_path: Path) -> None:
    file = tmp_path / "summary"
    writer = Writer(str(file))
    writer.stats = dict
    writer.write()
    killed = Run("farwrite", 1.0, 0, None, tuple(read_summaries(file)))
    told = "last counters and edges of these processes are missing"
    assert told in "\n".join(table([killed]))
    assert f"process {os.getpid()}: " in "\n".join(table([killed]))
    assert as_json([], [killed])["runs"][0]["without_end"] == [os.getpid()]
    assert told in html([], [killed])
    writer.end()
    whole = Run("farwrite", 1.0, 0, None, tuple(read_summaries(file)))
    assert told not in "\n".join(table([whole]))
    assert as_json([], [whole])["runs"][0]["without_end"] == []
