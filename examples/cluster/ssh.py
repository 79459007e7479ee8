"""Runs a TensorFlow program on the hosts of a file by ssh: a parameter server and a worker on each.

    python3 examples/cluster/ssh.py hosts.txt -- python3 examples/cluster/train.py --steps 200

The first host also runs the chief. The command runs in the same folder on every host. Variables
FARWRITE_... of this process hold for all tasks. The token goes to each task by its standard input,
where no list of processes shows it; without FARWRITE_TOKEN each run has a new one. The job ends
when the chief ends or a task fails. It also ends, on all hosts, when this process ends.
"""

import argparse
import contextlib
import os
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tf_config import CHIEF, PORT, Task, cluster_of, read_hosts, tasks_of, tf_config

SSH = ("ssh", "-o", "BatchMode=yes")
SECONDS_TO_END = 20
REMOTE = """
read -r FARWRITE_TOKEN
export FARWRITE_TOKEN {variables}
cd {folder} || exit
exec 3<&0
{command} </dev/null 3<&- &
task=$!
# Nothing more comes by standard input: its end is the end of the connection.
(read -r ignored <&3; kill $task) >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait $task
status=$?
kill $watch 2>/dev/null
exit $status
"""
"""What the shell of a host runs."""


def remote_script(command: Sequence[str], folder: str, variables: Mapping[str, str]) -> str:
    """Return the shell's script for one task."""
    set_to = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return REMOTE.format(
        variables=set_to, folder=shlex.quote(folder), command=shlex.join(command)
    ).strip()


def start(host: str, script: str, token: str) -> subprocess.Popen[str]:
    """Start a script on a host, and give it the token."""
    command = [*SSH, host, f"exec sh -c {shlex.quote(script)}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # ssh has ended, and wait() returns its status
        process.stdin.write(f"{token}\n")
        process.stdin.flush()
    return process


def wait(running: Mapping[Task, subprocess.Popen[str]]) -> int:
    """Wait until the chief ends, or another task, which may not. Return the job's status."""
    while True:
        for task, process in running.items():
            status = process.poll()
            if status is not None and task == CHIEF:
                return status
            if status is not None:
                print(f"{task} ended with status {status}", file=sys.stderr)
                return status or 1
        time.sleep(0.2)


def end(running: Mapping[Task, subprocess.Popen[str]]) -> None:
    """End every task, by the end of its standard input."""
    for process in running.values():
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    give_up = time.monotonic() + SECONDS_TO_END
    for task, process in running.items():
        try:
            process.wait(max(give_up - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            print(f"{task} does not end: look at its host", file=sys.stderr)
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a TensorFlow program on hosts, by ssh.")
    parser.add_argument("hosts", type=Path, help="a file with one host in each line")
    parser.add_argument("--port", type=int, default=PORT, help=f"the first (default: {PORT})")
    parser.add_argument("--folder", default=str(Path.cwd()), help="on every host (default: this)")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    cluster = cluster_of(read_hosts(arguments.hosts.read_text()), arguments.port)
    shared = {name: value for name, value in os.environ.items() if name.startswith("FARWRITE_")}
    token = shared.pop("FARWRITE_TOKEN", secrets.token_hex(32))
    running: dict[Task, subprocess.Popen[str]] = {}
    try:
        for task, host in tasks_of(cluster).items():
            variables = {**shared, "TF_CONFIG": tf_config(cluster, task)}
            script = remote_script(arguments.command, arguments.folder, variables)
            running[task] = start(host, script, token)
        return wait(running)
    except KeyboardInterrupt:
        return 130
    finally:
        end(running)


if __name__ == "__main__":
    sys.exit(main())
