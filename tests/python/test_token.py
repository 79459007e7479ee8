"""Who may reach a device: its user, by default; and what the others are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import farwrite as fw
from conftest import connected
from namespaces import two_hosts

NOBODY = 65534
OTHER_USER = str(Path(__file__).with_name("other_user.py"))
OPENS = "import farwrite as fw; fw.Device().close()"
LIMIT = 60


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this process a place for its cookie, and nothing else."""
    folder = tmp_path / "runtime"
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    for name in ("FARWRITE_TOKEN", "FARWRITE_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def folder_of_nobody() -> Iterator[Path]:
    """Make a folder that belongs to nothing; pytest's own are closed to other users."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


def _as_nobody(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    become = f"import os, farwrite; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", become + program],
        env=kept | environment, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip


def _attempts(device: fw.Device, cookie: Path, folder: Path) -> dict[str, str]:
    """Let another user try to read the array "secret"."""
    device.publish("secret", device.allocate(1 << 20, "uint8")).array[:] = 42
    ended = subprocess.run(
        [sys.executable, OTHER_USER, str(NOBODY), device.endpoint, str(cookie)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder)},
        capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(ended.stdout)
    return found


@pytest.mark.root
def test_another_user_reads_nothing_on_shm_or_tcp_and_learns_both_files(
    runtime: Path, folder_of_nobody: Path
) -> None:
    cookie = runtime / "farwrite" / "token"
    with fw.Device() as device:
        found = _attempts(device, cookie, folder_of_nobody)
        assert device.stats().channels_opened == 0
        assert device.stats().handshakes_refused == 4
    assert found["file"].startswith("PermissionError")
    for attempt in ("shm", "tcp", "shm, None", "tcp, None"):
        assert found[attempt].startswith("Unauthenticated"), found
        assert str(cookie) in found[attempt]
    for attempt in ("shm", "tcp"):
        assert str(folder_of_nobody / "farwrite" / "token") in found[attempt]
    for attempt in ("shm, None", "tcp, None"):
        assert "connecting side has none (its token option is none)" in found[attempt]


@pytest.mark.root
def test_without_a_token_another_user_reads_over_tcp_and_not_on_shm(
    runtime: Path, folder_of_nobody: Path
) -> None:
    with fw.Device(token=None) as device:
        found = _attempts(device, runtime / "farwrite" / "token", folder_of_nobody)
    assert found["tcp, None"] == "read [42] over tcp"
    assert "run both as one user" in found["shm, None"]
    assert found["tcp"].startswith("Unauthenticated")


@pytest.mark.root
@pytest.mark.parametrize("home", ["missing", "read-only"])
def test_a_user_without_a_home_is_told_what_to_set(folder_of_nobody: Path, home: str) -> None:
    folder_of_nobody.chmod(0o500)
    place = folder_of_nobody if home == "read-only" else folder_of_nobody / "missing"
    refused = _as_nobody(OPENS, HOME=str(place))
    assert "Unavailable" in refused.stderr
    assert "FARWRITE_TOKEN_FILE" in refused.stderr
    assert "/.cache/farwrite/token" in refused.stderr
    folder_of_nobody.chmod(0o700)
    named = {"HOME": str(place), "FARWRITE_TOKEN_FILE": str(folder_of_nobody / "token")}
    assert _as_nobody(OPENS, **named).returncode == 0
    assert _as_nobody("farwrite.Device(token=None).close()", HOME=str(place)).returncode == 0


@pytest.mark.root
def test_a_file_of_root_may_be_read_by_a_group_and_not_by_all(folder_of_nobody: Path) -> None:
    secret = folder_of_nobody / "secret"
    secret.write_text("0123456789abcdef" * 4)
    os.chown(secret, 0, NOBODY)
    for mode, opens in ((0o440, True), (0o460, False), (0o444, False)):
        secret.chmod(mode)
        ended = _as_nobody(OPENS, FARWRITE_TOKEN_FILE=str(secret))
        assert (ended.returncode == 0) == opens, ended.stderr
        assert opens or f"mode 0{mode:o}" in ended.stderr


def test_processes_that_start_at_once_make_one_cookie(runtime: Path) -> None:
    opened = "import farwrite as fw; d = fw.Device(); print(d.endpoint, flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    made: list[subprocess.Popen[str]] = [
        subprocess.Popen([sys.executable, "-c", opened], **pipes)  # type: ignore[call-overload]
        for _ in range(4)
    ]
    try:
        endpoints = [process.stdout.readline().strip() for process in made if process.stdout]
        assert [path.name for path in (runtime / "farwrite").iterdir()] == ["token"]
        with fw.Device() as device:
            for endpoint in endpoints:
                device.connect(endpoint, LIMIT).close()
    finally:
        for process in made:
            process.communicate("\n", timeout=LIMIT)


def test_none_is_not_the_default() -> None:
    with fw.Device(token=None) as one, fw.Device(token=None) as two:
        connected(one, two)
    with fw.Device(token=fw.DEFAULT_TOKEN) as one, fw.Device() as two:
        connected(one, two)
        with fw.Device(token=None) as stranger, pytest.raises(fw.Unauthenticated, match="is none"):
            stranger.connect(two.endpoint, LIMIT)
    assert repr(fw.DEFAULT_TOKEN) == "farwrite.DEFAULT_TOKEN"


def test_the_environment_may_ask_for_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARWRITE_TOKEN", "none")
    with fw.Device(listen="0.0.0.0:0") as one, fw.Device(token=None) as two:
        two.connect(f"127.0.0.1:{one.endpoint.rpartition(':')[2]}", LIMIT).close()


def test_a_device_without_a_token_listens_on_no_other_address() -> None:
    with pytest.raises(fw.Unauthenticated, match="set the option to none"):
        fw.Device(listen="0.0.0.0:0")


@pytest.mark.parametrize(
    ("listen", "token", "warned"),
    [
        ("0.0.0.0:0", "x" * 15, True),
        ("0.0.0.0:0", "x" * 16, False),
        ("127.0.0.1:0", "x", False),
    ],
)
def test_a_token_that_can_be_guessed_is_warned_of_between_hosts(
    listen: str, token: str, warned: bool
) -> None:
    opens = f"import farwrite as fw; fw.Device(listen={listen!r}, token={token!r}).close()"
    ended = subprocess.run(
        [sys.executable, "-c", opens], check=True, capture_output=True, text=True, timeout=LIMIT
    )
    assert ("the token has 15 bytes" in ended.stderr) == warned
    assert token not in ended.stderr


@pytest.mark.namespaces
def test_a_device_without_a_token_stays_on_the_loopback() -> None:
    with two_hosts() as (host, _):
        open_everywhere = (
            "import farwrite as fw\n"
            f"with fw.Device(listen='{host.address}:0', token=None) as open_everywhere:\n"
            "    try:\n"
            f"        fw.Device(listen='{host.address}:0')\n"
            "    except fw.Unauthenticated as error:\n"
            "        print('listen:', error)\n"
            "    with fw.Device() as device:\n"
            "        try:\n"
            "            device.connect(open_everywhere.endpoint, 20)\n"
            "        except fw.Unauthenticated as error:\n"
            "            print('connect:', error)\n"
            "    print('opened:', open_everywhere.stats().channels_opened)\n"
        )
        ended = subprocess.run(
            host.command(sys.executable, "-c", open_everywhere),
            capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
    listen, connect, opened = ended.stdout.splitlines()
    assert listen.startswith(f"listen: open a device at {host.address}:")
    assert connect.startswith(f"connect: connect to {host.address}:")
    assert opened == "opened: 0"
    for refusal in (listen, connect):
        assert "FARWRITE_TOKEN_FILE" in refusal
        assert "set the option to none" in refusal
