"""The files that benchmarks write: a file is never cut."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from farwrite.errors import FailedPrecondition
from farwrite_bench.figures import write, write_json


def test_a_file_and_its_folder_are_made(tmp_path: Path) -> None:
    file = tmp_path / "out" / "bench" / "p2p.json"
    write_json(file, {"rows": [1]})
    assert file.read_text() == '{\n  "rows": [\n    1\n  ]\n}\n'
    write_json(None, {})
    assert [*tmp_path.rglob("*")] == [file.parent.parent, file.parent, file]


def test_a_file_that_is_written_again_keeps_its_mode(tmp_path: Path) -> None:
    usual, file = tmp_path / "usual", tmp_path / "figures.json"
    usual.touch()
    write(file, "one")
    assert file.stat().st_mode == usual.stat().st_mode
    file.chmod(0o640)
    write(file, "two")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("two", 0o640)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "figures.json", tmp_path / "link.json"
    link.symlink_to(file.name)
    for text in ("one", "two"):
        write(link, text)
        assert link.is_symlink()
        assert file.read_text() == text


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(pipe, "figures")
        assert os.read(reader, 100) == b"figures"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_file_that_is_a_mount_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(target))

    file = tmp_path / "figures.json"
    write(file, "one")
    monkeypatch.setattr(Path, "replace", refuse)
    write(file, "two")
    assert file.read_text() == "two"
    assert [*tmp_path.iterdir()] == [file]


def test_a_file_keeps_its_text_when_the_disk_is_full(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    write(file, "hours of work")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, before[1]))  # stands for a full disk
    try:
        with pytest.raises(FailedPrecondition, match="too large; name another file"):
            write(file, "x" * 2**17)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file.read_text() == "hours of work"
    assert [*tmp_path.iterdir()] == [file]


def test_a_file_keeps_its_text_when_the_writer_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    write(file, "hours of work")
    # The kernel kills the writer in the middle of the file.
    killed = subprocess.run(
        [
            sys.executable,
            "-c",
            "import resource, signal, sys; from pathlib import Path;"
            " from farwrite_bench.figures import write;"
            " resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16));"
            " resource.setrlimit(resource.RLIMIT_CORE, (0, 0));"
            " signal.signal(signal.SIGXFSZ, signal.SIG_DFL);"
            " write(Path(sys.argv[1]), 'x' * 2**17)",
            str(file),
        ],
        check=False,
    )
    assert killed.returncode < 0
    assert file.read_text() == "hours of work"
    write(file, "more")
    assert [*tmp_path.iterdir()] == [file]
