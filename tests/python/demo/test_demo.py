"""``farwrite demo``: every way works, is checked, and leaves nothing behind."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

import farwrite as fw
from farwrite_demo import race as race_module
from farwrite_demo.child import Child
from farwrite_demo.command import affordable
from farwrite_demo.options import write
from farwrite_demo.progress import Progress
from farwrite_demo.race import WAYS, checksum, fill, stamp
from leftovers import held_by_others, shared_memory_files
from processes import group_lives

DEMO = [sys.executable, "-m", "farwrite", "demo"]


def show(folder: Path, *options: str) -> tuple[dict, str, str]:  # type: ignore[type-arg]
    """Run a demo; return its figures and what it printed. Its chart must be one file."""
    figures, picture = folder / "new" / "demo.json", folder / "demo.svg"
    ended = subprocess.run(
        [*DEMO, *options, "--rounds", "1", "--json", str(figures), "--svg", str(picture)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    text = picture.read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "prefers-color-scheme: dark" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    return json.loads(figures.read_text()), ended.stdout, ended.stderr


def test_moves_an_array_in_every_way(tmp_path: Path) -> None:
    facts, shown, errors = show(tmp_path, "--size", "16M")
    for way in WAYS.values():
        assert way.name in shown
        assert way.copied in shown
        assert f"{way.name}, 1 of 1: " in errors  # plain lines, because stderr is no terminal
    assert "\r" not in errors
    assert "To expect" in shown
    assert facts["bytes"] == 16 << 20
    assert [way["way"] for way in facts["ways"]] == ["pickle", "shared_memory", "write", "alias"]
    for way in facts["ways"]:
        assert 0 < way["seconds"] <= way["seconds_read"]
        assert way["verified"]


def test_a_model_reaches_every_reader_in_every_way(tmp_path: Path) -> None:
    facts, shown, _ = show(tmp_path, "box", "--size", "4M", "--readers", "2")
    assert "To expect" in shown
    assert facts["bytes"] == 4 << 20
    copies = {way["way"]: way["copies_reader"] for way in facts["ways"]}
    assert copies == {"box-shm": 0, "shared-memory": 0, "numpy-file": 1}
    assert all(way["seconds"] > 0 and way["copy_seconds"] > 0 for way in facts["ways"])


def test_an_interrupted_demo_leaves_nothing_behind() -> None:
    before = shared_memory_files()
    with subprocess.Popen(
        [*DEMO, "--size", "64M", "--rounds", "1000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline() == "setting up both processes: ready\n"
            os.killpg(process.pid, signal.SIGINT)  # as a terminal's Ctrl-C
            assert process.stderr.read().endswith("farwrite demo: interrupted\n")
            assert process.wait(30) == 130
        finally:
            process.kill()
    give_up = time.monotonic() + 10
    while group_lives(process.pid) or (
        (left := shared_memory_files() - before) and left != held_by_others(left)
    ):
        assert time.monotonic() < give_up, "the second process or its memory remains"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_shared_memory_without_room_is_an_error_and_no_signal(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.posix_fallocate", refuse)
    before = shared_memory_files()
    with pytest.raises(fw.ResourceExhausted, match=f"{os.strerror(number)}; .*/dev/shm"):
        race_module.race(1 << 20, 1)
    left = shared_memory_files() - before
    assert left == held_by_others(left)


def test_a_demo_whose_output_is_closed_ends_with_an_error_and_no_traceback() -> None:
    script = f'"{sys.executable}" -m farwrite demo --size 1M --rounds 1 >&-'
    ended = subprocess.run(["sh", "-c", script], stderr=subprocess.PIPE, text=True, timeout=120)
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False), ended.stderr
    assert "the output is lost" in ended.stderr


def test_a_file_on_a_full_disk_is_named() -> None:
    with pytest.raises(fw.FailedPrecondition, match="cannot write /dev/full: No space left"):
        write(Path("/dev/full"), "figures")


def test_a_wrong_checksum_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    # This stamp does not change the sums, so the bytes count as wrong.
    def mark(array: np.ndarray, sums: np.ndarray) -> None:  # type: ignore[type-arg]
        array[0] += np.uint64(1)

    monkeypatch.setattr(race_module, "stamp", mark)
    with pytest.raises(fw.Internal, match="checksum"):
        race_module.race(1 << 20, 1)


def test_the_checksum_sees_a_changed_word_and_moved_blocks() -> None:
    array = np.empty(1 << 18, np.uint64)
    fill(array)
    sums = checksum(array)
    stamp(array, sums)
    np.testing.assert_array_equal(checksum(array), sums)
    array[12345] ^= np.uint64(1 << 40)
    assert (checksum(array) != sums).any()
    array[12345] ^= np.uint64(1 << 40)
    swapped = np.concatenate([array[1 << 17 :], array[: 1 << 17]])
    assert (checksum(swapped) != sums).any()


def test_takes_no_more_memory_than_there_is() -> None:
    gib = 1 << 30
    assert affordable(gib, 64 * gib) == gib
    lowered = affordable(gib, 4 * gib)
    assert lowered < gib // 2
    assert lowered % (1 << 20) == 0
    assert affordable(gib, 0) == 1 << 20


@pytest.mark.parametrize("option", [["--size", "5"], ["--size", "big"], ["--rounds", "0"]])
def test_bad_options_say_why(option: list[str]) -> None:
    ended = subprocess.run([*DEMO, *option], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert option[0] in ended.stderr


def test_a_terminal_shows_the_state_until_the_result() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with Progress("copying", terminal := Terminal()) as line:
        line.show("50%")
        line.result = "12 ms"
    shown = [text.removesuffix("\x1b[K").split() for text in terminal.getvalue().split("\r")]
    assert shown[1:3] == [["copying", "..."], ["copying", "50%"]]
    assert terminal.getvalue().endswith(" 12 ms\x1b[K\n")


def fail(pipe: Connection) -> None:
    print("what the log holds")
    raise ValueError("what went wrong")


def leave(pipe: Connection) -> None:
    os._exit(0)


def wait(pipe: Connection) -> None:
    pipe.recv()


def test_a_process_that_fails_is_reported_with_its_log(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    with (
        Child("one", fail, log=log) as child,
        pytest.raises(fw.PeerDead, match=f"'one' failed: ValueError: what went wrong.*{log}"),
    ):
        child.receive()
    assert "what the log holds" in log.read_text()


def test_a_receiver_that_fails_before_it_connects_ends_the_race(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(race_module, "receive", fail)
    with pytest.raises(fw.PeerDead, match="'receiver' failed: TypeError"):
        race_module.race(1 << 20, 1)


def test_a_process_that_ends_or_sends_nothing_is_reported() -> None:
    with Child("one", leave) as child, pytest.raises(fw.PeerDead, match="it ended early"):
        child.receive()
    with Child("one", wait) as child, pytest.raises(fw.PeerDead, match="it sent nothing"):
        child.receive(0.1)
