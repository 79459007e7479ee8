"""``farwrite run``: exit status, signals, measuring, and a real cluster stock and on Farwrite."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from farwrite.run.child import run_command
from farwrite.run.meter import SocketMeter
from farwrite.run.report import as_json, first_difference, table

CLUSTER = Path(__file__).parent / "programs" / "plain_grpc.py"


def test_the_exit_status_is_the_commands() -> None:
    for code, status in (("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)):
        ended = run_command((sys.executable, "-c", code), stock=False, options={}, look=False)
        assert ended.exit_status == status


def test_signals_are_passed_on() -> None:
    program = "import signal; print('up', flush=True); signal.pause()"
    ours = (
        "import sys; from farwrite.run.child import run_command;"
        " print(run_command(sys.argv[1:], stock=False, options={}, look=False).exit_status)"
    )
    command = (sys.executable, "-c", ours, sys.executable, "-c", program)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        running.send_signal(signal.SIGTERM)
        assert running.communicate(timeout=60)[0] == f"{128 + signal.SIGTERM}\n"


def test_it_does_not_wait_for_what_the_command_leaves_running() -> None:
    ended = run_command(("sh", "-c", "sleep 30 & echo $!"), stock=True, options={}, look=True)
    assert ended.output is not None
    os.kill(int(ended.output[0]), signal.SIGKILL)  # still there: nobody waited for it


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
def test_an_unmodified_program_moves_its_tensors_over_farwrite(tmp_path: Path) -> None:
    file, trace = tmp_path / "run.json", tmp_path / "trace.json"
    command = (sys.executable, "-m", "farwrite", "run", "--compare", "--json", str(file))
    ended = subprocess.run(
        (*command, "--trace", str(trace), "--", sys.executable, str(CLUSTER)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    facts = json.loads(file.read_text())
    stock, ours = facts["runs"]
    assert facts["output"]["equal"], facts["output"]
    assert "The program's output: equal (1 lines)" in ended.stdout
    assert (len(stock["processes"]), len(ours["processes"])) == (3, 3)
    assert not any(process["loaded"] for process in stock["processes"])
    assert all(process["loaded"] for process in ours["processes"])
    assert ours["counters"]["pushes_alias"] > 0
    assert ours["counters"]["grpc_recv_tensor_calls"] == 0
    assert ours["socket_bytes_sent"] * 20 < stock["socket_bytes_sent"]
    traced = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"process_name", "send", "notification received"} <= traced
    assert as_json([], []) == {"command": [], "runs": []}
