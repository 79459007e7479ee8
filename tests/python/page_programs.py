"""Runs what a page shows: its Python blocks in order, then its saved programs together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path

from pages import PAGES, Block, blocks_of


def in_order(page: Path) -> list[Block]:
    """The blocks that run as one program."""
    return [block for block in blocks_of(page) if block.language == "python" and not block.marker]


def saved(page: Path) -> list[Block]:
    """The blocks that are programs of their own."""
    return [block for block in blocks_of(page) if block.saved_as]


def pages_to_run(tensorflow: bool) -> list[Path]:
    """The pages with something to run; `tensorflow` chooses those that need TensorFlow."""
    found = []
    for page in PAGES:
        blocks = [*in_order(page), *saved(page)]
        if blocks and any("tensorflow" in block.text for block in blocks) is tensorflow:
            found.append(page)
    return found


def run_page(
    page: Path, folder: Path, seconds: float, environment: Mapping[str, str] | None = None
) -> None:
    """Run the page's blocks and programs in `folder`; each must end with status 0 in time."""
    environment = {**os.environ, **(environment or {})}
    environment["PATH"] = f"{sysconfig.get_path('scripts')}:{environment['PATH']}"
    script = folder / f"{page.stem.replace('-', '_')}_page.py"
    if in_order(page):
        script.write_text(_at_their_lines(in_order(page)), encoding="utf-8")
        _run_together({script.name: [sys.executable, script.name]}, folder, seconds, environment)
    programs = {}
    for block in saved(page):
        assert block.saved_as is not None
        path = folder / block.saved_as
        assert not path.exists(), f"{block}: the page saves {path.name} twice"
        path.write_text(block.text, encoding="utf-8")
        programs[path.name] = [sys.executable, path.name]
    _run_together(programs, folder, seconds, environment)
    for block in blocks_of(page):
        if block.printed_by:
            name = script.name if block.printed_by == "this page" else block.printed_by
            output = (folder / f"{name}.output").read_text()
            assert block.is_part_of(output), f"{block}: {name} printed\n{output}"


def _at_their_lines(blocks: list[Block]) -> str:
    """One program, in which each line has the number that it has on the page."""
    text = ""
    for block in blocks:
        text += "\n" * (block.line - 1 - text.count("\n")) + block.text
    return text


def _run_together(
    programs: Mapping[str, list[str]],
    folder: Path,
    seconds: float,
    environment: Mapping[str, str],
) -> None:
    running = {}
    try:
        for name, command in programs.items():
            with (folder / f"{name}.output").open("wb") as output:
                running[name] = subprocess.Popen(
                    command,
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        give_up = time.monotonic() + seconds
        for name, process in running.items():
            try:
                status: int | str = process.wait(max(give_up - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                status = f"no end after {seconds} s"
            assert status == 0, f"{name}: {status}\n{_outputs(folder, running)}"
    finally:
        for process in running.values():
            with contextlib.suppress(ProcessLookupError):  # it and its children have ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _outputs(folder: Path, names: Mapping[str, object]) -> str:
    return "\n".join(f"--- {name}\n{(folder / f'{name}.output').read_text()}" for name in names)
