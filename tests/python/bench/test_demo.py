"""``farwrite demo``: every way works, is checked, and leaves nothing behind."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import farwrite as fw
from farwrite_bench.demo import race as race_module
from farwrite_bench.demo.bars import WIDTH, Bar, drawing
from farwrite_bench.demo.checksum import checksum, fill, stamp
from farwrite_bench.demo.command import affordable
from farwrite_bench.demo.ways import WAYS
from leftovers import held_by_others, shared_memory_files
from processes import group_lives

DEMO = [sys.executable, "-m", "farwrite", "demo"]


def test_moves_an_array_in_every_way(tmp_path: Path) -> None:
    figures, picture = tmp_path / "new" / "demo.json", tmp_path / "demo.svg"
    ended = subprocess.run(
        [*DEMO, "--size", "16M", "--rounds", "1", "--json", str(figures), "--svg", str(picture)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    for way in WAYS:
        assert way.name in ended.stdout
        assert way.copied in ended.stdout
        assert f"{way.name}: " in ended.stderr  # plain lines, because stderr is no terminal
    assert "\r" not in ended.stderr

    facts = json.loads(figures.read_text())
    assert facts["bytes"] == 16 << 20
    assert [way["way"] for way in facts["ways"]] == ["pickle", "shared_memory", "write", "alias"]
    for way in facts["ways"]:
        assert 0 < way["seconds"] <= way["seconds_read"]
        assert way["verified"]

    root = ElementTree.fromstring(picture.read_text())
    assert root.tag.endswith("svg")
    assert "prefers-color-scheme: dark" in picture.read_text()
    assert "http" not in picture.read_text().replace("http://www.w3.org/2000/svg", "")


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
            assert process.stderr.read().endswith("farwrite: interrupted\n")
            assert process.wait(30) == 130
        finally:
            process.kill()
    give_up = time.monotonic() + 10
    while group_lives(process.pid) or (
        (left := shared_memory_files() - before) and left != held_by_others(left)
    ):
        assert time.monotonic() < give_up, "the second process or its memory remains"
        time.sleep(0.05)


def test_a_wrong_checksum_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    # This stamp does not change the sums, so the bytes count as wrong.
    def mark(array: np.ndarray, sums: np.ndarray) -> None:  # type: ignore[type-arg]
        array[0] += np.uint64(1)

    monkeypatch.setattr(race_module, "stamp", mark)
    with pytest.raises(fw.Internal, match="checksum"):
        race_module.race(1 << 20, 1, lambda label: Bar(label, io.StringIO()))


def test_the_checksum_sees_a_changed_word_and_moved_blocks() -> None:
    array = np.empty(1 << 18, np.uint64)
    fill(array, seed=1)
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


def test_a_bar_on_a_terminal_ends_full() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    with Bar("copying", terminal) as bar:
        bar.progress(0.5)
        give_up = time.monotonic() + 20
        while drawing(0.5, 0) not in terminal.getvalue():
            assert time.monotonic() < give_up
            time.sleep(0.01)
        bar.result("12 ms")
    assert "copying" in terminal.getvalue()
    assert terminal.getvalue().rstrip("\n").endswith("12 ms\x1b[K")
    assert "█" * WIDTH in terminal.getvalue()


def test_a_bar_without_a_measure_wanders() -> None:
    drawings = {drawing(None, elapsed / 10) for elapsed in range(30)}
    assert len(drawings) > 5
    assert {len(text) for text in drawings} == {WIDTH}


def test_a_model_reaches_every_reader_in_every_way(tmp_path: Path) -> None:
    figures, picture = tmp_path / "box.json", tmp_path / "box.svg"
    ended = subprocess.run(
        [
            *[*DEMO, "box", "--size", "4M", "--readers", "2", "--rounds", "1"],
            *["--json", str(figures), "--svg", str(picture)],
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    facts = json.loads(figures.read_text())
    assert facts["bytes"] == 4 << 20
    assert {way["way"] for way in facts["ways"]} >= {"box-shm", "shared-memory"}
    for way in facts["ways"]:
        assert way["seconds"] > 0
        assert way["way"] in ("box-shm", "shared-memory") or way["copies_reader"] == 1
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("svg")
