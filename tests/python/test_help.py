"""The help of every command, and the answer to a mistyped one."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

import pytest

from farwrite import cli

EXAMPLE = "Example: farwrite "
TERMINAL = 80


def inner(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser, and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action.choices.values():
                yield from inner(choice)


COMMANDS = {parser.prog: parser for parser in inner(cli.parser())}


def example(command: str) -> list[str]:
    """Return the words of the example of a command, without ``farwrite``."""
    last = COMMANDS[command].format_help().splitlines()[-1]
    assert last.startswith(EXAMPLE), last
    return shlex.split(last.removeprefix(EXAMPLE))


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the error about a command line that cannot be parsed."""
    with pytest.raises(SystemExit) as raised:
        cli.main(words)
    assert raised.value.code == 2
    return capsys.readouterr().err


def mistyped(word: str) -> str:
    """Return the word with its first letter twice."""
    letters = word.lstrip("-")
    return word.removesuffix(letters) + letters[0] + letters


def test_the_commands_are_found() -> None:
    assert {"farwrite", "farwrite box serve", "farwrite bench p2p"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_at_first_what_the_command_is_for(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(TERMINAL))
    first, second, third, *_ = COMMANDS[command].format_help().splitlines()
    name, purpose = first.split(" - ")
    assert (name, second) == (command, "")
    assert purpose
    assert len(first) <= TERMINAL
    assert third.startswith(f"usage: {command} ")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_an_example_that_can_be_parsed(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(TERMINAL))
    words = example(command)
    assert ["farwrite", *words][: len(command.split())] == command.split()
    assert callable(cli.parser(words).parse_args(words).run)


@pytest.mark.parametrize("command", [command for command in COMMANDS if " " in command])
def test_a_mistyped_command_is_answered_with_the_nearest(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    *before, name = command.split()[1:]
    error = refused(capsys, *before, mistyped(name))
    assert f"invalid choice: '{mistyped(name)}'; did you mean '{name}'? (choose from" in error


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_option_is_answered_with_the_nearest(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command.split()[1:]
    others = example(command)[len(words) :]
    for option in COMMANDS[command]._option_string_actions:
        if option.startswith("--"):
            error = refused(capsys, *words, mistyped(option), *others)
            assert error.startswith(f"usage: {command} ")
            assert f"; did you mean '{option}'?" in error


def test_a_command_of_another_command_is_answered_with_both(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "did you mean 'farwrite box serve'? (choose from" in refused(capsys, "serve")
    assert "did you mean 'farwrite bench p2p'? (choose from" in refused(capsys, "p2p")


@pytest.mark.parametrize(
    ("words", "names"),
    [(("box",), "'serve', 'list'"), (("tensorflow",), "'analyze'"), (("bench",), "'p2p'")],
)
def test_a_command_without_its_subcommand_is_answered_with_all(
    words: tuple[str, ...], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(capsys, *words)
    assert "are required: " in error
    assert "(choose from '" in error
    assert names in error


def test_what_other_programs_call_an_option_is_answered_with_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "did you mean '--listen'?" in refused(capsys, "box", "serve", "--port", "1")
    assert "did you mean" not in refused(capsys, "box", "serve", "--nope")


def test_a_mistyped_value_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, "--log", "waring", "info")
    assert "argument --log: invalid choice: 'waring'; did you mean 'warning'?" in error
    assert "did you mean" not in refused(capsys, "--log", "quiet", "info")
