"""Traces: what is in them, whose they are, and how files of several processes are joined."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from conftest import Link
from farwrite import _farwrite, cli
from farwrite.run.child import run_command
from farwrite.trace import merge, traced
from processes import PeerState

Event = dict[str, Any]


def _publish_inbox(state: PeerState) -> None:
    state.kept["inbox"] = state.channel.publish("inbox", state.channel.allocate(1 << 20))


def _take(state: PeerState, count: int) -> list[int]:
    return [state.channel.wait_notification(10).tag for _ in range(count)]


def _look(state: PeerState) -> None:
    state.channel.lookup("outbox").read()


def _work(link: Link) -> None:
    link.peer.run(_publish_inbox)
    inbox = link.channel.lookup("inbox")
    data = np.ones(1 << 20, "uint8")
    link.channel.write(data, inbox, notify=11).wait()
    link.channel.flush().wait()
    link.channel.notify(12).wait()
    link.channel.send(b"hello", 13).wait()
    assert link.peer.run(_take, 3) == [11, 12, 13]
    link.device.publish("outbox", link.device.allocate(5000))
    link.peer.run(_look)


@pytest.fixture
def off() -> Iterator[None]:
    """Ends the tracing that a test began."""
    yield
    _farwrite.stop_trace()


def spans(events: list[Event], name: str) -> list[Event]:
    """Return the complete events of that name."""
    return [event for event in events if event["ph"] == "X" and event["name"] == name]


def test_two_processes_make_one_trace(
    tmp_path: Path, make_link: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out" / "trace.json"
    with traced(file):
        link = make_link()
        _work(link)
        theirs = link.peer.run(_pid)
        endpoint = link.device.endpoint
        link.peer.end()
        link.device.close()
    whole = json.loads(file.read_text())
    assert whole["otherData"] == {"clock": "CLOCK_MONOTONIC", "lost": 0}
    events = whole["traceEvents"]
    mine = [event for event in events if event["pid"] == os.getpid()]
    other = [event for event in events if event["pid"] == theirs]
    assert len(mine) + len(other) == len(events)
    for part in (mine, other):
        assert [event["args"]["name"] for event in part if event["name"] == "process_name"]
        assert [event for event in part if event["name"] == "thread_name"]
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")
    (write,) = spans(mine, "write")
    assert write["args"].items() >= {"bytes": 1 << 20, "tag": 11, "fabric": "shm"}.items()
    assert [event["args"]["tag"] for event in spans(mine, "notify")] == [12]
    assert [event["args"]["bytes"] for event in spans(mine, "send")] == [5]
    assert len(spans(mine, "flush")) == 1
    (read,) = spans(other, "read")
    assert read["args"].items() >= {"bytes": 5000, "peer": endpoint}.items()
    arrived = [event for event in other if event["name"] == "notification received"]
    assert [event["args"]["tag"] for event in arrived] == [11, 12, 13]
    # One clock: what was written before it was notified is there before it arrives.
    assert write["ts"] <= arrived[0]["ts"]
    assert "2 processes" in capsys.readouterr().err
    assert os.environ.get("FARWRITE_TRACE") is None


def _pid(state: PeerState) -> int:
    return os.getpid()


def test_a_peers_end_is_in_the_trace(tmp_path: Path, make_link: Any) -> None:
    file = tmp_path / "trace.json"
    with traced(file):
        link = make_link()
        link.peer.kill()
        with pytest.raises(fw.PeerDead):
            link.channel.wait_notification(20)
        link.device.close()
    names = {event["name"] for event in json.loads(file.read_text())["traceEvents"]}
    assert "peer dead" in names


def test_a_lease_that_comes_back_is_in_the_trace(tmp_path: Path, make_link: Any) -> None:
    file = tmp_path / "trace.json"
    with traced(file):
        link = make_link()
        link.device.publish("outbox", link.device.allocate(5000))
        link.peer.run(_look)
        link.peer.end()
        link.device.close()
    names = [event["name"] for event in json.loads(file.read_text())["traceEvents"]]
    assert "lease returned" in names


def test_without_the_variable_there_is_no_file(tmp_path: Path, link: Link) -> None:
    _work(link)
    _farwrite.write_trace()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("off")
def test_the_variable_names_a_file_for_each_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARWRITE_TRACE", str(tmp_path / "trace"))
    program = (
        "import farwrite as fw\n"
        "with fw.Device() as device, fw.Device() as other:\n"
        "    channel = device.connect(other.endpoint)\n"
        "    channel.notify(1).wait()\n"
    )
    ended = subprocess.Popen([sys.executable, "-c", program])
    assert ended.wait(60) == 0
    file = tmp_path / f"trace.{ended.pid}"
    assert list(tmp_path.iterdir()) == [file]
    assert len(spans(json.loads(file.read_text())["traceEvents"], "notify")) == 1


def test_a_process_that_forgets_to_close_writes_its_trace_at_its_end(tmp_path: Path) -> None:
    program = (
        "import farwrite as fw\n"
        "device, other = fw.Device(), fw.Device()\n"
        "channel = device.connect(other.endpoint)\n"
        "channel.notify(1).wait()\n"
    )
    environment = {**os.environ, "FARWRITE_TRACE": str(tmp_path / "%p.json")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    (file,) = tmp_path.iterdir()
    assert len(spans(json.loads(file.read_text())["traceEvents"], "notify")) == 1


def test_the_processes_of_a_command_that_is_run_are_traced(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    program = (
        "import farwrite as fw\n"
        "with fw.Device() as device, fw.Device() as other:\n"
        "    device.connect(other.endpoint).notify(1).wait()\n"
    )
    command = ("sh", "-c", 'python=$1; $python -c "$2"; $python -c "$2"', "sh", sys.executable)
    with traced(file):
        run_command((*command, program), stock=True, options={}, look=False)
    events = json.loads(file.read_text())["traceEvents"]
    assert len({event["pid"] for event in spans(events, "notify")}) == 2


@pytest.mark.timeout(300)
def test_the_benchmark_traces_both_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.json"
    command = ["bench", "p2p", "--quick", "--sizes", "4K", "--op", "write", "--rounds", "1"]
    assert cli.main([*command, "--wait", "block", "--pool", "16M", "--trace", str(file)]) == 0
    events = json.loads(file.read_text())["traceEvents"]
    assert len({event["pid"] for event in events}) == 2
    assert spans(events, "write")
    assert str(file) in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a file"
    file.write_text("")
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", "--size", "1M", "--trace", str(file / "trace.json")])
    assert ended.value.code == 2
    assert "cannot write" in capsys.readouterr().err


def test_joining_leaves_out_what_is_broken_and_adds_up_what_was_lost(tmp_path: Path) -> None:
    for name, lost in (("1", 3), ("2", 4)):
        (tmp_path / name).write_text(
            json.dumps({"otherData": {"lost": lost}, "traceEvents": [{"pid": int(name)}]})
        )
    (tmp_path / "3").write_text('{"otherData": {"lo')
    whole = merge([tmp_path / "1", tmp_path / "2", tmp_path / "3", tmp_path / "4"])
    assert whole["otherData"]["lost"] == 7
    assert [event["pid"] for event in whole["traceEvents"]] == [1, 2]
