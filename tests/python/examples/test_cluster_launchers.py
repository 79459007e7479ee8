"""The launchers for clusters, with an ssh, srun and scontrol that run everything here."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cluster_examples import (
    CLUSTER,
    FAKE_SCONTROL,
    FAKE_SRUN,
    FAKE_SSH,
    ROOT,
    SSH_INTO_NAMESPACES,
    environment,
    importable,
)

from farwrite_bench.cluster.process import free_ports
from namespaces import two_hosts
from processes import group_lives

with importable():
    import ssh as launcher

SAY = (
    # The task, and what it was given, in one write; a server then serves until it is ended.
    "import json, os, time; config = json.loads(os.environ['TF_CONFIG']);"
    " os.write(1, (json.dumps([config, os.getcwd(), dict(os.environ)]) + '\\n').encode());"
    " time.sleep(0.5 if config['task']['type'] == 'chief' else 300)"
)


def run(
    command: Sequence[str], variables: Mapping[str, str], seconds: float, status: int = 0
) -> tuple[str, str]:
    """Run a launcher. It ends with `status` in time, and its processes end with it."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds)
        assert process.returncode == status, f"{output}\n{errors[-5000:]}"
        _gone(process.pid)
    finally:
        if group_lives(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return output, errors


def _gone(group: int) -> None:
    give_up = time.monotonic() + 20
    while group_lives(group):
        assert time.monotonic() < give_up, "processes of the job are left"
        time.sleep(0.05)


def by_ssh(tmp_path: Path, hosts: Sequence[str], *command: str) -> tuple[list[str], dict[str, str]]:
    """Return the launcher's command, and its environment with the ssh of this test."""
    file = tmp_path / "hosts.txt"
    file.write_text("\n".join(hosts))
    made = environment(tmp_path, {"ssh": FAKE_SSH})
    made["SSH_HOSTS"] = str(tmp_path / "ssh_hosts")
    return [sys.executable, str(CLUSTER / "ssh.py"), str(file), *command], made


def told(output: str) -> dict[str, tuple[dict[str, Any], str, dict[str, str]]]:
    """Return by task what the lines of SAY hold."""
    lines = [json.loads(line) for line in output.splitlines()]
    return {f"{line[0]['task']['type']}:{line[0]['task']['index']}": line for line in lines}


def test_ssh_starts_every_task_on_its_host_and_ends_them_with_the_chief(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    options = ("--port", "4000", "--folder", str(folder), "--", sys.executable, "-c", SAY)
    command, variables = by_ssh(tmp_path, ["10.0.0.1", "10.0.0.2"], *options)
    output, _ = run(command, {**variables, "FARWRITE_FABRICS": "verbs,tcp"}, 60)
    tasks = told(output)
    assert sorted(tasks) == ["chief:0", "ps:0", "ps:1", "worker:0", "worker:1"]
    assert {where for _, where, _ in tasks.values()} == {str(folder)}
    assert tasks["ps:1"][0]["cluster"]["ps"] == ["10.0.0.1:4000", "10.0.0.2:4000"]
    assert {given["FARWRITE_FABRICS"] for *_, given in tasks.values()} == {"verbs,tcp"}
    started = sorted((tmp_path / "ssh_hosts").read_text().split())
    assert started == ["10.0.0.1"] * 3 + ["10.0.0.2"] * 2


def test_all_tasks_have_one_token_that_no_command_line_shows(tmp_path: Path) -> None:
    command, variables = by_ssh(tmp_path, ["10.0.0.1"], "--", sys.executable, "-c", SAY)
    chosen = secrets.token_hex(32)
    output, _ = run(command, {**variables, "FARWRITE_TOKEN": chosen}, 60)
    assert {given["FARWRITE_TOKEN"] for *_, given in told(output).values()} == {chosen}
    made = told(run(command, variables, 60)[0])
    assert len({given["FARWRITE_TOKEN"] for *_, given in made.values()}) == 1
    assert len(made["ps:0"][2]["FARWRITE_TOKEN"]) == 64
    assert "TOKEN=" not in launcher.remote_script(["true"], "/", {})


def test_a_task_that_fails_ends_the_job_with_its_status(tmp_path: Path) -> None:
    program = 'case $TF_CONFIG in *\'"type": "worker"\'*) exit 3;; esac; exec sleep 300'
    command, variables = by_ssh(tmp_path, ["10.0.0.1"], "--", "sh", "-c", program)
    _, errors = run(command, variables, 60, status=3)
    assert "worker:0 ended with status 3" in errors


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_the_tasks_end_when_the_launcher_ends(tmp_path: Path, end: signal.Signals) -> None:
    program = "echo; exec sleep 300"
    command, variables = by_ssh(tmp_path, ["10.0.0.1"], "--", "sh", "-c", program)
    with subprocess.Popen(
        command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            for _ in range(3):  # every task runs
                assert process.stdout.readline() == b"\n"
            process.send_signal(end)
            assert process.wait(60) in (130, -signal.SIGKILL)
            _gone(process.pid)
        finally:
            if group_lives(process.pid):
                os.killpg(process.pid, signal.SIGKILL)


def test_a_remote_script_is_shell() -> None:
    variables = {"TF_CONFIG": '{"it\'s": "quoted"}'}
    script = launcher.remote_script(["python3", "a b.py"], "/a b", variables)
    subprocess.run(["sh", "-n", "-c", script], check=True)
    assert f"TF_CONFIG={shlex.quote(variables['TF_CONFIG'])}" in script


def test_slurm_starts_every_task_and_ends_them_with_the_chief(tmp_path: Path) -> None:
    variables = environment(tmp_path, {"srun": FAKE_SRUN, "scontrol": FAKE_SCONTROL})
    variables["SLURM_JOB_NODELIST"] = "node[1-2]"
    output, _ = run(["bash", str(CLUSTER / "slurm.sh"), sys.executable, "-c", SAY], variables, 60)
    tasks = told(output)
    assert sorted(tasks) == ["chief:0", "ps:0", "ps:1", "worker:0", "worker:1"]
    clusters = [config["cluster"] for config, *_ in tasks.values()]
    assert clusters == 5 * [
        {
            "chief": ["node1:2224"],
            "ps": ["node1:2222", "node2:2222"],
            "worker": ["node1:2223", "node2:2223"],
        }
    ]
    given = [environment for *_, environment in tasks.values()]
    assert len({each["FARWRITE_TOKEN"] for each in given}) == 1
    assert {each["FARWRITE_LISTEN"] for each in given} == {"0.0.0.0:0"}


def test_slurm_ends_with_the_status_of_the_chief(tmp_path: Path) -> None:
    variables = environment(tmp_path, {"srun": FAKE_SRUN, "scontrol": FAKE_SCONTROL})
    variables["SLURM_JOB_NODELIST"] = "node[1-2]"
    program = 'case $TF_CONFIG in *\'"type": "chief"\'*) exit 5;; esac; exec sleep 300'
    run(["bash", str(CLUSTER / "slurm.sh"), "sh", "-c", program], variables, 60, status=5)


def first_of_three_free_ports() -> int:
    """Find a port that is free now, as the next two are."""
    for _ in range(200):
        (port,) = free_ports(1)
        if port + 2 < 2**16 and _free(port + 1) and _free(port + 2):
            return port
    raise AssertionError("no three free ports in a row")


def _free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


@pytest.mark.timeout(900)  # the plug-in may have to be compiled first
def test_the_example_trains_over_tcp_on_a_host(tmp_path: Path) -> None:
    program = (sys.executable, str(CLUSTER / "train.py"), "--steps", "60", "--units", "64")
    options = ("--port", str(first_of_three_free_ports()), "--", *program)
    command, variables = by_ssh(tmp_path, ["127.0.0.1"], *options)
    output = trained(command, {**variables, "FARWRITE_FABRICS": "tcp"})
    fabrics = fabrics_of(output)
    assert {"chief:0", "ps:0", "worker:0"} == {task for task, *_ in fabrics}
    assert {fabric for *_, fabric in fabrics} == {"tcp"}


@pytest.mark.namespaces
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_example_trains_on_two_hosts(tmp_path: Path) -> None:
    """Tasks on one host share memory, and tasks on two hosts use tcp."""
    with two_hosts() as hosts:
        addresses = [host.address for host in hosts]
        program = (sys.executable, str(CLUSTER / "train.py"), "--steps", "60", "--units", "64")
        command, variables = by_ssh(tmp_path, addresses, "--", *program)
        (tmp_path / "ssh").write_text(SSH_INTO_NAMESPACES)
        variables |= {f"SSH_HOST_{host.number}": host.namespace.path for host in hosts}
        variables["no_grpc_proxy"] = ",".join(addresses)
        fabrics = fabrics_of(trained(command, variables))
    first, second = addresses
    assert {(first, "tcp"), (second, "shm")} <= {
        (peer, fabric) for task, peer, fabric in fabrics if task == "worker:1"
    }


def trained(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """Run a job that trains, and return its output. Its loss must fall."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    output, errors = run(command, {**variables, **quiet}, 800)
    line = r"^chief:0: 60 steps, [\d.]+ steps/s, loss ([\d.]+) to ([\d.]+)$"
    loss = re.search(line, output, re.M)
    assert loss is not None, f"{output}\n{errors[-5000:]}"
    assert float(loss[2]) < 0.8 * float(loss[1])
    return output


def fabrics_of(output: str) -> list[tuple[str, str, str]]:
    """Return the task, the peer's host and the fabric of each printed link."""
    return re.findall(r"^(\w+:\d): ([\d.]+) over (\S+)$", output, re.M)
