"""Between hosts: the fabric that is chosen, names, and a cable that is pulled."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from namespaces import Host, two_hosts

pytestmark = pytest.mark.namespaces

PROGRAM = str(Path(__file__).with_name("two_hosts_program.py"))


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts with a cable between them."""
    with two_hosts() as made:
        yield made


class Pair:
    """Both programs, each on its host."""

    def __init__(
        self, hosts: tuple[Host, Host], rounds: int, host_timeout: float, version: int = 4
    ) -> None:
        first, second = hosts
        addresses = [f"[{h.ipv6}]:0" if version == 6 else f"{h.address}:0" for h in hosts]
        limit = str(host_timeout)
        self.asks = self._start(first, "ask", addresses[0], str(rounds), limit)
        endpoint = self.line("listening")
        self.answers = self._start(second, "answer", addresses[1], endpoint, limit)

    @staticmethod
    def _start(host: Host, *words: str) -> subprocess.Popen[str]:
        command = host.command(sys.executable, PROGRAM, *words)
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def line(self, word: str) -> str:
        """Read on to the line that begins with `word`, and give its rest."""
        assert self.asks.stdout is not None
        said = []
        for line in self.asks.stdout:
            said.append(line)
            if line.startswith(word):
                return line[len(word) :].strip()
        raise AssertionError(f"no {word!r} in {said}")

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.asks, self.answers):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.mark.parametrize("version", [4, 6])
def test_hosts_meet_over_tcp_without_being_told(hosts: tuple[Host, Host], version: int) -> None:
    with Pair(hosts, 5, 60, version) as pair:
        assert pair.line("fabric") == "tcp"
        pair.line("round 4")
        assert pair.asks.wait(30) == 0


def test_a_cable_that_is_pulled_and_plugged_in_again_loses_nothing(
    hosts: tuple[Host, Host],
) -> None:
    with Pair(hosts, 300, 60) as pair:
        for pulled in (10, 30):
            pair.line(f"round {pulled}")
            hosts[1].plug(False)
            time.sleep(1.2)
            hosts[1].plug(True)
        pair.line("round 299")
        assert int(pair.line("silences")) >= 1
        assert pair.asks.wait(30) == 0


def test_a_cable_that_stays_pulled_is_the_peers_end_after_the_host_timeout(
    hosts: tuple[Host, Host],
) -> None:
    with Pair(hosts, 100_000, 2) as pair:
        pair.line("round 10")
        hosts[1].plug(False)
        error = pair.line("error")
        assert error.startswith("PeerDead")
        assert "connect again" in error
        assert pair.asks.wait(30) == 0
