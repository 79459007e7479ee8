"""The command farwrite: info, version and errors."""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import farwrite as fw
from farwrite import cli
from farwrite.cli_parser import writable_file
from farwrite.units import format_size, parse_seconds, parse_size

NEARLY = "FARWRITE_" + "SEND_LIMT"  # in parts, as no option of that name is to be in the table


def test_info_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info"]) == 0
    printed = capsys.readouterr().out
    for word in ("Farwrite", "shm", "tcp", "verbs", "memcpy", "<- chosen", "huge pages"):
        assert word in printed


def test_info_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts) == [
        "version",
        "fabrics",
        "topology",
        "encryption",
        "copy_kernels",
        "limits",
    ]
    usable = {fabric["name"]: fabric["usable"] for fabric in facts["fabrics"]}
    verbs = usable.pop("verbs")  # as the machine has it
    assert usable == {"shm": True, "tcp": True}
    assert all(fabric["more"] == [] or verbs for fabric in facts["fabrics"])
    assert all(fabric["reason"] for fabric in facts["fabrics"])
    chosen = [kernel for kernel in facts["copy_kernels"] if kernel["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["supported"]
    assert facts["limits"]["cpus"] >= 1
    assert facts["limits"]["memory_available"] > 0
    again = json.loads(json.dumps(fw.info()))
    for report in (facts, again):
        del report["limits"]["memory_available"]  # moves between two calls
    assert facts == again


def test_output_that_nobody_reads_to_its_end_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "farwrite", "options"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")


def test_a_mistyped_variable_is_named() -> None:
    environment = {**os.environ, NEARLY: "8M"}
    words = [sys.executable, "-m", "farwrite", "options"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert f"{NEARLY} is no option; did you mean 'FARWRITE_SEND_LIMIT'?" in done.stdout


def test_version_is_the_packages() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "farwrite", "--version"], capture_output=True, text=True, check=True
    )
    assert ended.stdout == f"farwrite {fw.__version__}\n"


def imported(script: str) -> set[str]:
    """Return the names of the modules that a program has imported at its end."""
    at_exit = (
        "import atexit, sys; atexit.register(lambda: print('', *sys.modules, file=sys.stderr))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", at_exit + script], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in ended.stderr
    return set(ended.stderr.split())


SELDOM = {"asyncio", "http.server", "importlib.metadata", "inspect", "farwrite.box", "ctypes.util"}
"""Modules that few programs use."""
LARGE = {*SELDOM, "email", "socket", "numpy", "concurrent.futures", "logging", "multiprocessing"}
"""Modules without which a help can be printed."""


@pytest.mark.parametrize(
    ("script", "without"),
    [
        ("import farwrite", LARGE),
        ("import farwrite as fw; fw.Device().close()", SELDOM - {"farwrite.box", "inspect"}),
    ],
)
def test_the_package_loads_what_few_programs_use_only_when_they_use_it(
    script: str, without: set[str]
) -> None:
    assert without & imported(script) == set()


@pytest.mark.parametrize(
    "words",
    [
        "info --help", "config --help", "options --help", "tensorflow --help",
        "tensorflow analyze --help", "run --help", "box --help", "box serve --help",
        "run --no-such-option", "box",
    ],
)  # fmt: skip
def test_a_command_of_the_package_needs_no_large_module_before_it_runs(words: str) -> None:
    found = imported(f"from farwrite.cli import main\nmain({words.split()!r})")
    assert "farwrite.cli" in found
    assert LARGE & found == set()


@pytest.mark.parametrize("words", ["--help", "--version", "rum", "bench --help", "report --help"])
def test_another_help_and_a_wrong_line_need_only_the_search_for_commands(words: str) -> None:
    found = imported(f"from farwrite.cli import main\nmain({words.split()!r})")
    search = imported("from importlib.metadata import entry_points\nentry_points()")
    assert "importlib.metadata" in found & search
    assert (LARGE - search) & found == set()


def test_an_error_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise fw.Unavailable("no luck today")

    monkeypatch.setattr("farwrite.cli.info.info", fail)
    assert cli.main(["info"]) == 1
    assert capsys.readouterr().err == "farwrite info: no luck today\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_by_a_signal_cleans_up(
    tmp_path: Path, number: signal.Signals
) -> None:
    program = (
        "import sys, tempfile, time\n"
        "from farwrite import cli\n"
        "from farwrite.cli import info as command\n"
        "def info():\n"
        "    with tempfile.TemporaryDirectory(dir=sys.argv[1]):\n"
        "        try:\n"
        "            print('begun', flush=True)\n"
        "            time.sleep(100)\n"
        "        finally:\n"
        "            print('cleaning up', flush=True)\n"
        "            time.sleep(0.2)\n"
        "command.info = info\n"
        "sys.exit(cli.main(['info']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "begun\n"
        command.send_signal(number)
        assert command.stdout.readline() == "cleaning up\n"
        command.send_signal(number)  # as `timeout` does, to the group
        assert command.wait(20) == -number
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_a_command_also_where_python_drops_it() -> None:
    script = """
        import signal, sys, time, weakref
        from farwrite import cli
        from farwrite.cli import info

        class Watched:
            pass

        def drop(reference):  # Python only prints what is raised in here
            print("dropped", flush=True)
            signal.raise_signal(signal.SIGINT)

        def run(arguments):
            watched = Watched()
            reference = weakref.ref(watched, drop)
            del watched
            time.sleep(30)
            return 0

        info.run = run
        sys.exit(cli.main(["info"]))
        """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (130, "dropped\n")
    assert ended.stderr == "farwrite info: interrupted\n"


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["info", "--nonsense"]])
def test_a_wrong_command_line_says_how(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        cli.main(arguments)
    assert raised.value.code == 2
    assert "usage: farwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8", 8),
        ("4K", 4096),
        ("4k", 4096),
        ("64MB", 64 << 20),
        ("1GiB", 1 << 30),
        ("1.5G", 3 << 29),
        ("2T", 2 << 40),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "big", "-1", "4P", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|negative"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5.0),
        ("0.5 s", 0.5),
        ("20us", 20e-6),
        ("100MS", 0.1),
        ("10min", 600.0),
        ("1.5h", 5400.0),
    ],
)
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "5m", "h", "-1", "inf", "nan", "1 h 5 s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (length of )?time; write"):
        parse_seconds(text)


def test_sizes_are_written_as_people_read_them() -> None:
    assert [format_size(size) for size in (8, 4096, 96 << 20, 3 << 29, 2 << 40)] == [
        "8 B",
        "4 KiB",
        "96 MiB",
        "1.5 GiB",
        "2 TiB",
    ]


def test_a_file_that_cannot_be_written_is_a_mistake_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "out.json"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"cannot write .*; name another"):
            writable_file(str(path))
    with pytest.raises(argparse.ArgumentTypeError, match="the path is empty"):
        writable_file("")
    with pytest.raises(argparse.ArgumentTypeError, match=r"missing does not exist; create it, or"):
        writable_file(str(tmp_path / "missing" / "folder" / "out.json"))
    assert not (tmp_path / "missing").exists()
    new = tmp_path / "folder" / "out.json"
    assert writable_file(str(new)) == new
    assert new.parent.is_dir()
    assert not new.exists()


def test_two_options_that_name_one_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", "--compare", "--json", str(tmp_path / "one"), "--report", "one", "--", "true"]
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert "--json and --report both name one; name two files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files; raise the limit"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/x"), "/x: No such file; create it"),
    ],
)
def test_an_error_of_the_system_is_one_line(
    error: OSError,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse() -> None:
        raise error

    monkeypatch.setattr("farwrite.cli.info.info", refuse)
    assert cli.main(["info"]) == 1
    assert capsys.readouterr().err.startswith(f"farwrite info: stopped: {sentence}")
