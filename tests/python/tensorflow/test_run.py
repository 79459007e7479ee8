"""``farwrite run``: exit status, signals, measuring, and a real cluster stock and on Farwrite."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from farwrite.run.child import run_command
from farwrite.run.meter import SocketMeter
from farwrite.run.report import as_json, first_difference, table
from farwrite_bench.cluster.process import free_addresses

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "assign_add.py"


def farwrite_run(
    *arguments: str,
    input: bytes | None = None,
    stdin: IO[Any] | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run the command ``farwrite run`` to its end; its standard input is empty if none is given."""
    ended = subprocess.run(
        (sys.executable, "-m", "farwrite", "run", *arguments),
        env={**os.environ, **environment},
        capture_output=True,
        timeout=250,
        check=False,
        **({"stdin": stdin or subprocess.DEVNULL} if input is None else {"input": input}),  # type: ignore[call-overload]
    )
    return subprocess.CompletedProcess(
        ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode()
    )


def test_the_exit_status_is_the_commands() -> None:
    for code, status in (("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)):
        ended = run_command((sys.executable, "-c", code), stock=False, options={}, look=False)
        assert ended.exit_status == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP])
def test_signals_are_passed_on(number: signal.Signals) -> None:
    program = "import signal; print('up', flush=True); signal.pause()"
    ours = (
        "import sys; from farwrite.run.child import run_command;"
        " print(run_command(sys.argv[1:], stock=False, options={}, look=False).exit_status)"
    )
    command = (sys.executable, "-c", ours, sys.executable, "-c", program)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        running.send_signal(number)
        assert running.communicate(timeout=60)[0] == f"{128 + number}\n"


WRITES_ON = """
i=0; while [ -d "$(dirname "$FARWRITE_TF_SUMMARY")" ]; do
  i=$((i + 1)); echo '{}' > "$FARWRITE_TF_SUMMARY.$i.part"
done 2>/dev/null &
"""


def test_processes_that_outlive_the_command_may_still_write(tmp_path: Path) -> None:
    command = ("sh", "-c", WRITES_ON + "sleep 0.02")
    for attempt in range(20):
        file = tmp_path / f"{attempt}.json"
        ended = farwrite_run("--json", str(file), "--", *command, TMPDIR=str(tmp_path))
        assert ended.returncode == 0, ended.stderr
        assert json.loads(file.read_text())["runs"][0]["exit_status"] == 0
    assert not list(tmp_path.glob("farwrite-run-*"))


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_both_runs_get_the_same_standard_input(kind: str, tmp_path: Path) -> None:
    given = b"line\n" * 100_000  # more than a pipe holds
    program = "import sys; sys.stdin.readline(); print(len(sys.stdin.read()))"
    if kind == "file":
        (tmp_path / "given").write_bytes(given)
        with (tmp_path / "given").open("rb") as file:
            ended = farwrite_run("--compare", "--", sys.executable, "-c", program, stdin=file)
    else:
        ended = farwrite_run("--compare", "--", sys.executable, "-c", program, input=given)
    assert ended.stdout.split() == [str(len(given) - 5)] * 2


def test_a_run_does_not_wait_for_the_end_of_its_standard_input() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"one\ntwo\n")
        with os.fdopen(reading) as source:
            ended = farwrite_run("--compare", "--", "sh", "-c", "read a; echo $a", stdin=source)
    finally:
        os.close(writing)
    assert ended.stdout.split() == ["one", "one"]


def test_a_second_run_that_is_left_out_is_reported() -> None:
    ended = farwrite_run("--compare", "--", "sh", "-c", "exit 3")
    assert ended.returncode == 3
    assert "ended with status 3; the run on Farwrite is left out" in ended.stderr


def test_a_file_that_cannot_be_written_is_reported_before_anything_runs(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "file").touch()
    for option in ("--json", "--report"):
        out = str(tmp_path / "file" / "out")
        ended = farwrite_run(option, out, "--", "sh", "-c", f"touch {ran}; exit 3")
        assert ended.returncode == 2
        assert f"cannot write {out}" in ended.stderr
    assert not ran.exists()


def test_a_file_that_becomes_unwritable_does_not_hide_the_exit_status(tmp_path: Path) -> None:
    out = tmp_path / "folder" / "out"
    ended = farwrite_run("--json", str(out), "--", "sh", "-c", f"rmdir {out.parent}; exit 3")
    assert ended.returncode == 3
    assert f"cannot write {out}" in ended.stderr


def test_a_command_that_cannot_be_started_ends_as_in_a_shell(tmp_path: Path) -> None:
    missing, plain = tmp_path / "missing", tmp_path / "plain"
    plain.touch()
    assert farwrite_run("--", str(missing)).returncode == 127
    assert farwrite_run("--", str(plain)).returncode == 126


def test_the_figures_do_not_mix_with_the_programs_output() -> None:
    ended = farwrite_run("--compare", "--", "echo", "hello")
    assert ended.stdout == "hello\nhello\n"


def test_a_program_without_tensorflow_gets_no_table_and_needs_no_compiler(tmp_path: Path) -> None:
    nothing_built = {"FARWRITE_CACHE": str(tmp_path), "CXX": "no-compiler"}
    ended = farwrite_run("--", "echo", "hello", **nothing_built)
    assert (ended.returncode, ended.stdout) == (0, "hello\n")
    assert "no process imported TensorFlow" in ended.stderr
    assert "compiling" not in ended.stderr  # nothing can be
    assert "wall time" not in ended.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)  # imports TensorFlow twice
def test_without_a_compiler_a_program_ends_unless_grpc_will_do(
    tmp_path: Path,
) -> None:
    nothing_built = {"FARWRITE_CACHE": str(tmp_path), "CXX": "no-compiler"}
    program = (sys.executable, "-c", "import tensorflow; print('went on')")
    ended = farwrite_run("--", *program, **nothing_built)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "CXX=no-compiler is not a C++ compiler" in ended.stderr
    assert "--or-grpc" in ended.stderr
    ended = farwrite_run("--or-grpc", "--", *program, **nothing_built)
    assert (ended.returncode, ended.stdout) == (0, "went on\n"), ended.stderr
    assert "plug-in not loaded: TensorFlow plug-in: CXX=no-compiler" in ended.stderr


def test_it_does_not_wait_for_what_the_command_leaves_running() -> None:
    ended = run_command(("sh", "-c", "sleep 30 & echo $!"), stock=True, options={}, look=True)
    assert ended.output is not None
    os.kill(int(ended.output[0]), signal.SIGKILL)  # still there: nothing waited for it


def test_a_program_without_tensorflow_is_said_so() -> None:
    ended = run_command((sys.executable, "-c", ""), stock=False, options={}, look=False)
    assert "no process imported TensorFlow" in "\n".join(table([ended]))


def test_the_first_line_that_differs_is_shown() -> None:
    assert first_difference(["a", "b"], ["a", "b"]) is None
    assert first_difference(["a", "b"], ["a", "c"]) == {"line": 2, "grpc": "b", "farwrite": "c"}
    assert first_difference(["a"], ["a", "c"]) == {"line": 2, "grpc": None, "farwrite": "c"}


def test_bytes_of_closed_sockets_stay_counted() -> None:
    meter = SocketMeter()
    before = meter.look()
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            near.sendall(b"x" * 1000)
            assert len(far.recv(1000, socket.MSG_WAITALL)) == 1000
            while (open_now := meter.look()).sent - before.sent < 1000:
                pass  # acknowledged by the kernel a moment later
    assert meter.look() == open_now
    assert open_now.received - before.received == 1000


@pytest.mark.timeout(900)  # the plug-in may have to be compiled first
def test_an_example_runs_unmodified_and_moves_its_tensors_over_farwrite(tmp_path: Path) -> None:
    file, trace = tmp_path / "run.json", tmp_path / "trace.json"
    ps, worker = free_addresses(2)
    program = (sys.executable, str(EXAMPLE), "--megabytes", "1", "--steps", "4")
    options = ("--compare", "--json", str(file), "--trace", str(trace))
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    keras = {"TF_USE_LEGACY_KERAS": ""}  # as users have it, unlike the other tests
    ended = farwrite_run(*options, "--", *program, "--ps", ps, "--worker", worker, **quiet, **keras)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == 2 * "after 5 steps every element is between 5 and 5\n"
    assert ended.stderr.count("1 MB added 4 times: ") == 2
    assert "The program's output: equal (1 lines)" in ended.stderr
    facts = json.loads(file.read_text())
    stock, ours = facts["runs"]
    assert facts["output"]["equal"], facts["output"]
    assert (len(stock["processes"]), len(ours["processes"])) == (2, 2)
    assert not any(process["loaded"] for process in stock["processes"])
    assert all(process["loaded"] for process in ours["processes"])
    assert ours["counters"]["pushes_alias"] >= 5
    assert ours["counters"]["grpc_recv_tensor_calls"] == 0
    assert ours["socket_bytes_sent"] * 20 < stock["socket_bytes_sent"]
    traced = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"process_name", "send", "notification received"} <= traced
    assert as_json([], []) == {"command": [], "runs": []}
