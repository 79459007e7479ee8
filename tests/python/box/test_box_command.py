"""The command ``farwrite box``."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import farwrite as fw
from farwrite import cli

COMMAND = [sys.executable, "-m", "farwrite", "box"]


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
    assert cli.main(["box", "list", "nowhere"]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_serve_has_a_token_and_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("a secret that is long enough to be one")
    token.chmod(0o600)
    with subprocess.Popen(
        [*COMMAND, "serve", "--memory", "8M", "--pool", "2M", "--token-file", str(token),
         "--metrics", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "FARWRITE_LOG": "info"},
        text=True,
    ) as served:  # fmt: skip
        assert served.stdout is not None
        endpoint = served.stdout.readline().strip()
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
    assert cli.main(["box", "serve", "--restore"]) == 1
    assert "--snapshot DIR" in capsys.readouterr().err


def test_the_box_is_imported_when_it_is_used() -> None:
    program = "import sys, farwrite as fw; print('farwrite.box' in sys.modules); fw.box.serve"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("False\n", "")
