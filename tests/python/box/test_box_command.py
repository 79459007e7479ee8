"""The command ``farwrite box``."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import farwrite as fw
from farwrite import cli
from farwrite.box.command import reachable
from farwrite_bench.cluster.process import free_ports

COMMAND = [sys.executable, "-m", "farwrite", "box"]


def _token_file(folder: Path) -> Path:
    token = folder / "token"
    token.write_text("a secret that is long enough to be one")
    token.chmod(0o600)
    return token


@contextlib.contextmanager
def _served(*words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve a small box by the command; yield the process and its address."""
    with subprocess.Popen(
        [*COMMAND, "serve", "--memory", "8M", "--pool", "2M", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        text=True,
    ) as served:
        assert served.stdout is not None
        try:
            yield served, served.stdout.readline().strip()
        finally:
            served.kill()


@pytest.mark.parametrize("host", ["0.0.0.0", "0"])
def test_a_server_on_every_address_prints_one_that_clients_can_use(
    host: str, tmp_path: Path
) -> None:
    token = _token_file(tmp_path)
    words = ("--listen", f"{host}:0", "--token-file", str(token))
    with _served(*words) as (served, address):
        own, _, port = address.rpartition(":")
        assert own not in (host, "0.0.0.0", "")
        with fw.box.connect(address, token=token.read_text()) as client:
            assert client.list() == []
        served.terminate()
        _, said = served.communicate(timeout=30)
    assert f"listens on every address of this host ({host}:{port}); if clients do not" in said


def test_a_host_that_reaches_no_other_gives_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reachable("127.0.0.1:7600") == "127.0.0.1:7600"
    assert reachable("[::1]:7600") == "[::1]:7600"

    def refuse(*_: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.gethostname", lambda: "node7")
    assert reachable("0.0.0.0:7600") == "node7:7600"
    assert reachable("[::]:7600") == "node7:7600"


def test_list_prints_a_table(
    box: fw.box.Client, box_server: fw.box.Server, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = box.create("weights", (2, 3), "bfloat16")
    epoch = box.event("epoch")
    epoch.signal()
    assert cli.main(["box", "list", box_server.endpoint]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "key", "dtype", "shape", "size", "version", "clients"]
    table = {row.split()[0]: row.split() for row in rows}
    assert table["weights"] == ["weights", str(weights.key), "bfloat16", "2x3", "12", "B", "0", "1"]
    assert table["epoch"][2] == "event"


def test_a_name_is_one_line_of_the_table_in_any_encoding(
    box: fw.box.Client, box_server: fw.box.Server
) -> None:
    box.create("two\nlines", 1)
    box.create("\x1b[31mred", 1)
    box.create("größe", 1)
    listed = subprocess.run(
        [*COMMAND, "list", box_server.endpoint],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert listed.stderr == b""
    names = {row.split()[0] for row in listed.stdout.splitlines()[1:]}
    assert names == {rb"two\nlines", rb"\x1b[31mred", rb"gr\xf6\xdfe"}


def test_list_of_no_address_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["box", "list", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_serve_has_a_token_and_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = _token_file(tmp_path)
    words = ["--token-file", str(token), "--metrics", "0"]
    with _served(*words, FARWRITE_LOG="info") as (served, endpoint):
        with pytest.raises(fw.Unauthenticated):
            fw.box.connect(endpoint, timeout=5)
        listed = subprocess.run(
            [*COMMAND, "list", endpoint, "--token-file", str(token)], capture_output=True, text=True
        )
        assert listed.returncode == 0, listed.stderr
        served.send_signal(signal.SIGTERM)
        errors = served.communicate(timeout=30)[1]
        assert served.returncode == 0, errors
        assert re.search(r"metrics are at http://127.0.0.1:\d+/metrics", errors)


def test_metrics_of_a_server_are_served(box_server: fw.box.Server) -> None:
    url = box_server.serve_metrics()
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert "# TYPE farwrite_" in answer.read().decode()


@pytest.mark.parametrize(
    "words",
    [["--memory", "much"], ["--snapshot-every", "soon", "--snapshot", "."], ["--listen"]],
)
def test_words_that_are_wrong_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["box", "serve", *words])
    assert ended.value.code == 2


def test_restore_needs_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["box", "serve", "--restore"]) == 2
    assert "--snapshot DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--snapshot="], ["--snapshot=", "--restore"], ["--token-file="]]
)
def test_an_empty_path_is_refused_before_anything_is_served(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # What a shell makes of --snapshot "$UNSET". Taken for "no snapshots", it loses the segments.
    assert cli.main(["box", "serve", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "an empty path" in printed.err
    assert "snapshot=" not in printed.err.splitlines()[-1]  # a keyword of Python


def test_a_pool_that_is_more_than_the_memory_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["box", "serve", "--memory", "8M", "--pool", "16M"]) == 2
    assert "the pool of 16777216 bytes is more than the memory" in capsys.readouterr().err


def test_an_address_that_others_reach_without_a_token_names_the_flag(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        cli.main(["box", "serve", "--memory", "8M", "--pool", "2M", "--listen", "0.0.0.0:0"]) == 1
    )
    assert "--token-file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["box.serve", "box.training.SEASGD", "trace.merge"])
def test_what_the_pages_name_needs_no_further_import(name: str) -> None:
    program = f"import farwrite as fw; fw.{name}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stderr == ""


def test_a_flag_overrides_the_environment_and_the_environment_the_default(tmp_path: Path) -> None:
    token = _token_file(tmp_path)
    [port] = free_ports(1)
    variables = {"FARWRITE_LISTEN": f"127.0.0.1:{port}", "FARWRITE_TOKEN": "another token"}
    words = {"--listen": "127.0.0.1:0", "--token-file": str(token)}
    for given in ({}, words):
        flags = [word for pair in given.items() for word in pair]
        with _served(*flags, **variables) as (served, endpoint):
            assert endpoint.endswith(f":{port}") == (not given)
            secret = token.read_text() if given else "another token"
            fw.box.connect(endpoint, timeout=20, token=secret).close()
            served.send_signal(signal.SIGTERM)


def test_clients_take_no_port_that_the_environment_gives_the_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listen, data = free_ports(2)
    monkeypatch.setenv("FARWRITE_LISTEN", f"127.0.0.1:{listen}")
    monkeypatch.setenv("FARWRITE_DATA_PORT", str(data))
    with fw.box.serve(memory="8M", pool="2M", fabrics=["tcp"]) as server:
        assert server.endpoint == f"127.0.0.1:{listen}"
        with server.connect() as one, fw.box.connect(server.endpoint) as other:
            one.create("w", 4)
            assert other.attach("w").shape == (4,)
        assert cli.main(["box", "list", server.endpoint]) == 0
    assert "float32" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["serve"], ["list", "127.0.0.1:1"]])
def test_a_token_file_that_is_missing_is_refused_and_not_made(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "token"
    assert cli.main(["box", *command, "--token-file", str(missing)]) == 1
    assert f"{missing} does not exist" in capsys.readouterr().err
    assert not missing.exists()


def test_the_box_is_imported_when_it_is_used() -> None:
    program = "import sys, farwrite as fw; print('farwrite.box' in sys.modules); fw.box.serve"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("False\n", "")
