"""Tasks that are forked from a process that has imported TensorFlow.

Each test runs a program of its own: the process that forks lives as long as the one that starts it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
BEGIN = """
import json, os, sys, time
from pathlib import Path
from farwrite.errors import Error
from farwrite_bench.cluster.forked import ForkedTask, import_tensorflow

logs = Path(sys.argv[1])

def main():
"""
END = """
if __name__ == "__main__":
    main()
"""


def start(tmp_path: Path, *lines: str) -> subprocess.Popen[str]:
    """Start a program with these lines as its function."""
    file = tmp_path / "starter.py"
    file.write_text(BEGIN + "".join(f"    {line}\n" for line in lines) + END)
    search = filter(None, (str(FOLDER), os.environ.get("PYTHONPATH")))
    return subprocess.Popen(
        [sys.executable, str(file), str(tmp_path / "logs")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(search)},
        stdout=subprocess.PIPE,
        text=True,
    )


def answers(tmp_path: Path, *lines: str) -> list[Any]:
    """Run the program, and return the JSON of each line that it prints."""
    with start(tmp_path, *lines) as starter:
        output, _ = starter.communicate(timeout=240)
    assert starter.returncode == 0, output
    return [json.loads(line) for line in output.splitlines()]


def status(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat behind the name."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def parent(process: int) -> int:
    """Return the parent's id."""
    return int(status(process)[1])


def has_ended(process: int) -> bool:
    """Wait until a process has ended; False after half a minute."""
    give_up = time.monotonic() + 30
    while time.monotonic() < give_up:
        try:
            state = status(process)[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_tasks_have_their_own_variables_and_logs_and_share_an_import(tmp_path: Path) -> None:
    one, two, failure, other = answers(
        tmp_path,
        "for word in ('one', 'two'):",
        "    with ForkedTask(word, 'asked_program', {'FORKED_TEST': word}, logs / word) as task:",
        "        print(json.dumps(task.ask('facts')))",
        "with ForkedTask('ps:0', 'asked_program', {}, logs / 'ps') as task:",
        "    try:",
        "        task.ask('fail')",
        "    except Error as error:",
        "        print(json.dumps(str(error)))",
        "try:",
        "    import_tensorflow({'MALLOC_ARENA_MAX': '1'}, logs / 'again')",
        "except Error as error:",
        "    print(json.dumps(str(error)))",
    )
    assert (one[1:], two[1:]) == (["one", True], ["two", True])
    assert one[0] != two[0]
    assert has_ended(one[0]) and has_ended(two[0])
    for word in ("one", "two", "ps"):
        assert "begun" in (tmp_path / "logs" / word).read_text()
    assert failure.startswith("task ps:0 failed: ValueError: as asked")
    assert "other variables" in other


@pytest.mark.parametrize("order", ["facts", "be busy"])
def test_a_task_ends_when_its_starter_is_killed(tmp_path: Path, order: str) -> None:
    with start(
        tmp_path,
        "task = ForkedTask('a', 'asked_program', {}, logs / 'a')",
        f"print(task.ask({order!r})[0], flush=True)",
        "time.sleep(300)",
    ) as starter:
        assert starter.stdout is not None
        task = int(starter.stdout.readline())
        forker = parent(task)
        starter.send_signal(signal.SIGKILL)
        left = [process for process in (task, forker) if not has_ended(process)]
        for process in left:
            os.kill(process, signal.SIGKILL)
        assert not left
