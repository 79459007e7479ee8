"""Commands that other packages add to ``farwrite``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType

import pytest

from farwrite import cli
from farwrite.cli import entry_points as commands
from farwrite_bench import command
from farwrite_bench.benchmarks import benchmarks

GROUP = "farwrite.commands"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch):
    """Make `farwrite` see these entry points alone: values by name, or pairs."""

    def installed(*entries: tuple[str, str]) -> None:
        found = EntryPoints(EntryPoint(name, value, GROUP) for name, value in entries)
        monkeypatch.setattr(commands, "entry_points", lambda group: found.select(group=group))

    return installed


@pytest.fixture
def greet(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with a command ``greet NAME``."""
    module = ModuleType("greeting")

    def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        parser = subparsers.add_parser("greet")
        parser.add_argument("name")
        parser.set_defaults(run=lambda arguments: print("hello", arguments.name) or 3)

    module.add_parser = add_parser
    monkeypatch.setitem(sys.modules, "greeting", module)
    return module


def test_an_entry_point_adds_a_command(install, greet, capsys) -> None:
    install(("greet", "greeting"))
    assert cli.main(["greet", "you"]) == 3
    assert capsys.readouterr().out == "hello you\n"


def test_an_entry_point_may_name_an_object_of_a_module(install, greet, capsys) -> None:
    greet.command = argparse.Namespace(add_parser=greet.add_parser)
    install(("greet", "greeting:command"))
    assert cli.main(["greet", "you"]) == 3


@pytest.mark.parametrize(("name", "package"), commands.PACKAGES.items())
@pytest.mark.parametrize("words", [[], ["p2p", "--quick"], ["--help"], ["-x", "--", "y"]])
def test_a_command_of_a_package_that_is_missing_says_what_to_install(
    install, capsys, name, package, words
) -> None:
    install()
    assert cli.main([name, *words]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"farwrite {name}: the command is in the package {package};"
        " install it, or run `make install` in a checkout\n"
    )


def test_help_names_the_commands_that_are_missing(install, capsys) -> None:
    install()
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    help_text = " ".join(capsys.readouterr().out.split())
    assert help_text.count("run `make install`") >= 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module_anywhere", "ModuleNotFoundError: No module named"),
        ("json:nothing", "AttributeError: module 'json' has no attribute 'nothing'"),
        ("json", "AttributeError: module 'json' has no attribute 'add_parser'"),
        ("greeting", "adds 'greet' instead"),
    ],
)
def test_a_broken_entry_point_fails_alone_and_says_why(
    install, greet, capsys, value, reason
) -> None:
    install(("broken", value), ("greet", "greeting"))
    assert cli.main(["broken", "--any", "words"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"farwrite broken: the entry point broken = {value} ")
    assert reason in error
    assert cli.main(["greet", "you"]) == 3
    assert cli.main(["options"]) == 0
    assert capsys.readouterr().err == ""


def test_a_command_that_fails_half_way_leaves_no_half_command(install, greet, capsys) -> None:
    whole = greet.add_parser

    def half(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        whole(subparsers)
        raise RuntimeError("no more")

    greet.add_parser = half
    install(("greet", "greeting"))
    assert cli.main(["greet", "you"]) == 1
    assert "(RuntimeError: no more)" in capsys.readouterr().err


def test_a_second_command_of_a_name_is_left_out_with_a_warning(install, greet, capsys) -> None:
    install(("greet", "greeting"), ("info", "greeting"))
    assert cli.main(["info"]) == 0
    assert "Copy kernels" in capsys.readouterr().out
    for words in ("--help", "nosuch"):
        with pytest.raises(SystemExit):
            cli.main([words])
        assert capsys.readouterr().err.count("info = greeting adds a second command 'info'") == 1


@pytest.mark.parametrize("word", ["-", "--", ""])
def test_a_word_that_is_no_command_is_refused_with_all_commands(word, capsys) -> None:
    with pytest.raises(SystemExit):
        cli.main([word, "info"])
    assert "'reproduce'" in capsys.readouterr().err


def test_the_other_packages_register_their_commands() -> None:
    from importlib.metadata import entry_points

    found = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    assert found["bench"] == "farwrite_bench.command"
    assert found["demo"] == "farwrite_demo.command"
    assert found["report"] == "farwrite_bench.report.command"
    assert found["reproduce"] == "farwrite_experiments.reproduce"


def test_only_the_command_that_the_line_names_is_imported(install, greet, capsys) -> None:
    install(("broken", "no_such_module_anywhere"), ("greet", "greeting"))
    assert cli.main(["greet", "you"]) == 3
    assert cli.main(["options"]) == 0
    words = ["--log", "info", "greet", "you"]
    assert cli.parser(words).parse_args(words).name == "you"
    assert capsys.readouterr().err == ""
    script = """
        import contextlib, sys
        from farwrite import cli
        with contextlib.suppress(SystemExit):
            cli.main(["bench", "memory", "--no-such-option"])
        print(*sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert "unrecognized arguments: --no-such-option" in ended.stderr
    imported = set(ended.stdout.split())
    assert "farwrite_bench.memory" in imported
    assert not imported & {"farwrite_bench.p2p.benchmark", "farwrite_bench.report.command"}


@pytest.mark.parametrize("words", [["--help"], ["-h", "options"], []])
def test_help_imports_every_command(install, greet, capsys, words) -> None:
    install(("broken", "no_such_module_anywhere"), ("greet", "greeting"))
    with pytest.raises(SystemExit):
        cli.main(words)
    printed = capsys.readouterr()
    assert words == [] or "cannot be loaded" in " ".join(printed.out.split())


def test_a_wrong_command_is_answered_with_all_names(install, greet, capsys) -> None:
    install(("broken", "no_such_module_anywhere"), ("greet", "greeting"))
    with pytest.raises(SystemExit):
        cli.main(["gret", "options"])
    error = capsys.readouterr().err
    assert all(name in error for name in ("options", "broken", "greet", "bench", "reproduce"))


def test_every_benchmark_has_the_name_of_its_command() -> None:
    assert {name: entry.benchmark.name for name, entry in benchmarks().items()} == {
        name: name for name in benchmarks()
    }
    commands = argparse.ArgumentParser().add_subparsers()
    command.add_parser(commands)
    (kinds,) = (each for each in commands.choices["bench"]._actions if each.choices)
    assert list(kinds.choices) == sorted(n for n, entry in benchmarks().items() if entry.command)


def test_the_list_of_commands_needs_none_of_the_packages_modules() -> None:
    whole = cli.parser().format_help()
    for words in (["--help"], ["--log", "info", "-h"], ["--log=info", "--help"]):
        assert cli.parser(words).format_help() == whole
    script = """
        import contextlib, sys
        from farwrite import cli

        with contextlib.suppress(SystemExit):
            cli.main(["--help"])
        print(*sys.modules, file=sys.stderr)
        """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in ended.stderr.split()}
    assert loaded & {"farwrite_bench", "farwrite_demo", "farwrite_experiments"} == set()
