"""``farwrite run`` and programs that it cannot run: the cause, and the name that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from farwrite import cli
from farwrite.run import command


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The only folder in PATH, and the current folder."""
    path, here = tmp_path / "bin", tmp_path / "here"
    path.mkdir()
    here.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.chdir(here)
    return path, here


def write(file: Path, text: str = "#!/bin/sh\n", mode: int = 0o755) -> None:
    file.write_text(text)
    file.chmod(mode)


@pytest.fixture(params=[(), ("--grpc",)], ids=["tensorflow", "grpc"])
def refused(
    request: pytest.FixtureRequest,
    folders: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """Run a program that cannot be run; return the exit status and the cause."""
    monkeypatch.setattr("farwrite.run.command.find_component", lambda: folders[0])
    built: list[None] = []
    monkeypatch.setattr(command, "_build_first", lambda: built.append(None))

    def run(word: str, *, compiles: bool = False) -> tuple[int, str]:
        status = cli.main(["run", *request.param, "--", word, "argument"])
        error = capsys.readouterr().err
        before = f"farwrite run: cannot run {word or repr(word)}: "
        assert error.startswith(before)
        assert bool(built) == (compiles and not request.param)
        return status, error.removeprefix(before).rstrip("\n")

    return run


def test_a_mistyped_program_is_answered_with_the_nearest_in_path(folders, refused) -> None:
    write(folders[0] / "python")
    assert refused("pyhton") == (127, "PATH has no such program; did you mean 'python'?")
    nothing = "PATH has no such program; check its name, or give its path"
    write(folders[0] / "corelist")
    assert refused("nonexist") == (127, nothing)
    assert refused("train") == (127, nothing)
    assert refused("") == (127, nothing)


def test_a_mistyped_path_is_answered_with_the_nearest_in_its_folder(folders, refused) -> None:
    write(folders[1] / "train.sh")
    assert refused("./tarin.sh") == (127, "there is no such file; did you mean 'train.sh'?")
    assert refused("nowhere/train.sh") == (127, "there is no such file; check its path")


@pytest.mark.parametrize(
    ("name", "mode", "remedy"),
    [
        ("train", 0o755, "name its path, ./train"),
        ("train", 0o644, "allow it (chmod +x ./train), and name it by its path"),
        ("train.py", 0o644, "name its interpreter before it: python train.py"),
    ],
)
def test_a_file_of_this_folder_is_no_program_in_path(folders, refused, name, mode, remedy) -> None:
    write(folders[1] / name, mode=mode)
    assert refused(name) == (
        127,
        f"PATH has no such program, and the file is in this folder; {remedy}",
    )


def test_what_cannot_be_executed_says_why(folders, refused) -> None:
    path, here = folders
    write(path / "plain", mode=0o644)
    allow = f"allow it (chmod +x {path}/plain), and name it by its path"
    assert refused("plain") == (126, f"{path}/plain is not executable; {allow}")
    assert refused(str(here)) == (126, f"{here} is a folder; name a program in it")


def test_a_missing_interpreter_is_named(folders, refused) -> None:
    script = folders[1] / "script"
    write(script, "#!/no/such/sh -e\n")
    assert refused(str(script), compiles=True) == (
        127,
        f"the first line of {script} names the interpreter /no/such/sh, which does not exist;"
        " install it, or name another one before the script",
    )


def test_a_file_that_is_no_program_says_so(folders, refused) -> None:
    program = folders[1] / "program"
    write(program, "\0 of another machine\n")
    assert refused(str(program), compiles=True) == (
        126,
        f"Exec format error; if {program} is a script, name its interpreter before it",
    )


def test_a_script_without_a_first_line_is_run_by_sh(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_build_first", lambda: None)
    write(folders[0] / "script", 'exit "$1"\n')
    assert cli.main(["run", "--", "script", "7"]) == 7
