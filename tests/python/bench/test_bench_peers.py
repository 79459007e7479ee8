"""``bench peers``: its loops, its rows, and what happens to a peer that is missing or fails."""

from __future__ import annotations

import json
import queue
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench_command import bench, result
from farwrite.errors import Internal, InvalidArgument, NotFound
from farwrite_bench.p2p.plan import POOL_BYTES
from farwrite_bench.peers.adapters import PEERS
from farwrite_bench.peers.benchmark import BENCHMARK
from farwrite_bench.peers.end import End, Setup
from farwrite_bench.peers.loop import Loop
from farwrite_bench.peers.peer import (
    BANDWIDTH,
    CPP,
    FARWRITE,
    LATENCY,
    LIMIT,
    PYTHON,
    Figures,
    Peer,
)
from farwrite_bench.peers.plan import DEFAULT_SIZES, ROUNDS, Plan, expected_seconds
from farwrite_bench.peers.pool import shared_pools
from farwrite_bench.peers.run import run
from farwrite_bench.peers.side import run_receiver, run_sender
from farwrite_bench.sizes import KIB, MIB

POOL = 4 * MIB
KEYS = [peer.key for peer in PEERS]


class QueueEnd(End):
    """An end of two queues of Python, which can change or repeat what it sends."""

    def __init__(self, setup: Setup, there: Any, here: Any, harm: str | None) -> None:
        super().__init__(setup)
        self._there, self._here, self._harm = there, here, harm
        self._last = b""

    def send(self, offset: int) -> None:
        payload = bytes(self.out[offset : offset + self.loop.size])
        if self._harm == "bit" and not self.setup.receives:
            payload = payload[:-1] + bytes([payload[-1] ^ 1])
        if self._harm == "stale" and self._last:
            payload = self._last
        self._last = payload
        self._there.put(payload)

    def receive(self) -> bytes:
        return bytes(self._here.get(timeout=20))

    def acknowledge(self) -> None:
        self._there.put(b"")

    def await_acknowledgement(self) -> None:
        assert self._here.get(timeout=20) == b""


def run_loop(kind: str, size: int, transfers: int, harm: str | None = None) -> tuple[Any, Any]:
    """Run both sides of a loop in two threads; return what the receiver and the sender found."""
    loop = Loop(kind, size, transfers, 7, POOL)
    forth: Any = queue.Queue()
    back: Any = queue.Queue()
    with shared_pools(POOL) as (receivers, senders):
        receiver = QueueEnd(Setup(True, receivers, ""), back, forth, None)
        sender = QueueEnd(Setup(False, senders, ""), forth, back, harm)
        receiver.start(loop)
        found: list[Any] = []
        serving = threading.Thread(target=lambda: found.append(run_receiver(receiver)))
        serving.start()
        sent = run_sender(sender, loop)
        serving.join()
        return found[0], sent


@pytest.mark.parametrize(
    ("kind", "size", "transfers"),
    [
        (LATENCY, 8, 20),
        (LATENCY, 64 * KIB, 5),
        (LATENCY, MIB, 9),
        (BANDWIDTH, 24, 50),
        (BANDWIDTH, MIB, 9),
    ],
)
def test_every_byte_of_every_transfer_is_checked(kind: str, size: int, transfers: int) -> None:
    (received, read_ns), (sent, began_ns) = run_loop(kind, size, transfers)
    assert (received.bad, sent.bad) == (0, 0)
    assert len(sent.samples_us) == (transfers if kind == LATENCY and size < MIB else 0)
    assert len(began_ns) == (transfers if kind == LATENCY and size == MIB else 0)
    assert all(read > began for began, read in zip(began_ns, read_ns, strict=True))
    (received, _), _ = run_loop(kind, size, transfers, "bit")
    assert received.bad == 2 * transfers, "each came wrong, and none came right"


def test_a_payload_that_comes_twice_is_wrong() -> None:
    (received, _), _ = run_loop(BANDWIDTH, 64, 4, "stale")
    assert received.bad == 3 + 3, "three came again, and three never came"


def test_the_source_is_the_ramp_again_after_a_loop() -> None:
    loop = Loop(BANDWIDTH, 4 * KIB, 10, 1, POOL)
    with shared_pools(POOL) as (_, senders):
        before = senders.out.map().copy()
        sender = QueueEnd(Setup(False, senders, ""), queue.Queue(), _Always(), None)
        run_sender(sender, loop)
        assert (senders.out.map() == before).all()


class _Always:
    def get(self, timeout: float) -> bytes:
        return b""


class Fake:
    """A running peer of fixed figures, which may fail at a size."""

    settings = "none"
    variant = None

    def __init__(self, us: float, gb_s: float, fails: int | None = None, bad: int = 0) -> None:
        self._us, self._gb_s, self._fails, self._bad = us, gb_s, fails, bad

    def prepare(self, size: int) -> None:
        if size == self._fails:
            raise Internal("the library failed\nand more")

    def run(self, kind: str, size: int, transfers: int) -> Figures:
        seconds = size * transfers / 1e9 / self._gb_s
        samples_us = [self._us] * transfers if kind == LATENCY else []
        return Figures(seconds, 2 * seconds, self._bad, samples_us, transfers)


def fake(key: str, us: float, gb_s: float, language: str = PYTHON, **more: Any) -> Peer:
    return Peer(
        key, key.title(), language, lambda _: Fake(us, gb_s, **more), ahead="it has no checks"
    )


def measured(*peers: Peer, sizes: tuple[int, ...] = (8, MIB)) -> list[dict[str, Any]]:
    """Measure fake peers beside Farwrite, from both languages, and the limit."""
    ours = (
        fake(LIMIT, 1.0, 10.0, CPP),
        fake(FARWRITE[CPP], 2.0, 8.0, CPP),
        fake(FARWRITE[PYTHON], 4.0, 7.0),
    )
    plan = Plan((*ours, *peers), sizes, 2, POOL, True)
    return run(plan, lambda _share, _what="": None, Path())


def row_of(found: list[dict[str, Any]], peer: str, size: int) -> dict[str, Any]:
    return next(row for row in found if (row["peer"], row["size"]) == (peer, size))


def sentences(found: list[dict[str, Any]]) -> list[str]:
    """Return the sentences, without those of the settings."""
    said = BENCHMARK.all_sentences({"rows": found})
    return [each for each in said if not each.endswith(": none")]


def test_a_peer_that_is_far_ahead_is_named_with_its_factor() -> None:
    found = measured(fake("rocket", 0.0004, 8000.0))
    (sentence,) = sentences(found)
    assert (
        sentence
        == "Rocket is ahead of Farwrite, 10000.00x at 8 B, 1142.86x at 1 MiB: it has no checks."
    )


def test_a_peer_is_compared_with_farwrite_from_its_own_language() -> None:
    found = measured(fake("ucx", 1.0, 4.0, CPP), fake("slow", 40.0, 0.7))
    small, large = row_of(found, "ucx", 8), row_of(found, "ucx", MIB)
    assert (small["of_farwrite"]["median"], small["ratio_to_limit"]["median"]) == (0.5, 1.0)
    assert (large["of_farwrite"]["median"], large["ratio_to_limit"]["median"]) == (2.0, 0.4)
    assert (small["target_met"], large["target_met"]) == (False, True), "0.77 below 64 KiB"
    assert row_of(found, "slow", 8)["of_farwrite"]["median"] == 10.0
    assert row_of(found, "slow", 8)["target"] is None, "only UCX has a target below 64 KiB"
    assert row_of(found, "slow", MIB)["of_farwrite"]["median"] == 10.0
    assert row_of(found, "farwrite", MIB)["of_farwrite"] is None
    assert row_of(found, "slow", MIB)["cpu_s_per_gb"] == pytest.approx(2 / 0.7, rel=1e-3)
    (table,) = BENCHMARK.tables
    assert [row["peer"] for row in table.rows({"rows": found})[:2]] == ["limit", "ucx"]


def test_sentences_say_where_a_peer_is_ahead_and_why() -> None:
    found = measured(fake("ucx", 1.0, 4.0, CPP), fake("slow", 40.0, 0.7))
    assert sentences(found) == [
        "Ucx is ahead of Farwrite, 2.00x at 8 B: it has no checks.",
    ]
    assert row_of(found, "ucx", MIB)["why"] is None
    assert sentences(measured(fake("slow", 40.0, 0.7))) == [
        "No peer is ahead of Farwrite at any of these sizes."
    ]


def last_cell(row: dict[str, Any]) -> str:
    ((*_, last),) = BENCHMARK.tables[0].cells({"rows": [row]})
    return last


def test_a_peer_that_fails_has_a_row_with_its_error_and_the_others_go_on() -> None:
    found = measured(fake("broken", 1.0, 4.0, fails=MIB), fake("wrong", 1.0, 1.0, bad=3))
    assert row_of(found, "broken", 8)["p50_us"] == 1.0
    failed = row_of(found, "broken", MIB)
    assert (failed["p50_us"], failed["error"]) == (None, "the library failed\nand more")
    assert last_cell(failed) == "failed: the library failed"
    assert "wrong moved 3 wrong payloads" in row_of(found, "wrong", 8)["error"]
    assert row_of(found, "farwrite", MIB)["rounds"] == 2
    assert "1 MiB, Broken, Python failed: the library failed\nand more" in sentences(found)


def test_a_peer_that_is_missing_has_a_row_that_says_how_to_install_it() -> None:
    def lacks(_: object) -> Any:
        raise NotFound("no compiler")

    absent = Peer("a", "A", PYTHON, lacks, module="farwrite_no_such_module.x", install="pip x")
    found = measured(absent, replace(absent, key="b", name="B", module=None, install="apt y"))
    first, second = row_of(found, "a", None), row_of(found, "b", None)
    assert (first["missing"], first["install"]) == ("no module farwrite_no_such_module.x", "pip x")
    assert second["missing"] == "no compiler"
    assert last_cell(second) == "missing: apt y"
    assert "B is missing (no compiler). Install it: apt y" in sentences(found)


def test_a_slow_peer_makes_fewer_transfers_and_a_fast_one_stays_in_the_pool() -> None:
    plan = Plan((), (8,), 1, POOL_BYTES, False)
    assert plan.counts(8, {LATENCY: 1e-6, BANDWIDTH: 1e-6})[BANDWIDTH] == 20000
    large = plan.counts(64 * MIB, {LATENCY: 1e-3, BANDWIDTH: 1e-3})
    assert large[BANDWIDTH] == 16, "one pass over the pool"
    slow = plan.counts(256 * MIB, {LATENCY: 3.0, BANDWIDTH: 3.0})
    assert slow == {LATENCY: 2, BANDWIDTH: 4}
    assert plan.counts(8, {LATENCY: 1e-3, BANDWIDTH: 1e-3})[LATENCY] == 250


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sizes": (12,)}, "a size of 12 bytes; use a multiple of 8"),
        ({"sizes": (POOL,)}, "exceeds half of the pool"),
    ],
)
def test_a_request_that_cannot_be_measured_is_refused(
    changes: dict[str, Any], sentence: str
) -> None:
    good: dict[str, Any] = {"sizes": (8,), "rounds": 1, "pool_bytes": POOL, "quick": True}
    with pytest.raises(InvalidArgument, match=sentence):
        Plan(peers=(), **{**good, **changes})


def test_a_default_run_is_expected_to_end_within_ten_minutes() -> None:
    plan = Plan(PEERS, DEFAULT_SIZES, ROUNDS, POOL_BYTES, False)
    assert 60 < expected_seconds(plan, len(PEERS)) < 600


def test_every_peer_can_be_named_and_says_how_to_install_it() -> None:
    assert len(set(KEYS)) == len(KEYS)
    for peer in PEERS:
        assert bool(peer.module) == bool(peer.install)
        assert peer.key != peer.name


def test_an_unknown_peer_is_refused() -> None:
    done = bench("peers", "--peer", "carrier-pigeon")
    assert done.returncode == 2
    assert "invalid choice: 'carrier-pigeon'" in done.stderr


def test_the_peers_that_are_installed_move_checked_bytes(tmp_path: Path) -> None:
    path, drawn = tmp_path / "peers.json", tmp_path / "peers.svg"
    # OpenMPI would be fetched from Debian.
    chosen = [key for key in KEYS if key not in ("openmpi", LIMIT, *FARWRITE.values())]
    words = [word for key in chosen for word in ("--peer", key)]
    done = bench(
        *("peers", "--quick", "--rounds", "1", "--sizes", "8,1M", *words),
        *("--json", str(path), "--svg", str(drawn)),
    )
    assert done.returncode == 0, done.stderr
    found = result(path, "peers")["rows"]
    assert {row["peer"] for row in found} == {*chosen, LIMIT, *FARWRITE.values()}
    assert [row["error"] for row in found if row["error"]] == []
    installed = {row["peer"] for row in found if row["missing"] is None}
    assert installed >= {LIMIT, *FARWRITE.values(), "shared-memory"}
    for row in found:
        if row["missing"] is not None:
            assert row["install"] in done.stdout
            continue
        assert row["p50_us"] > 0
        assert row["gb_s"] > 0
        assert row["settings"]
    for key in installed:
        assert {row["size"] for row in found if row["peer"] == key} == {8, MIB}
    assert json.loads(path.read_text())["plan"]["sizes"] == [8, MIB]
    assert "prefers-color-scheme: dark" in drawn.read_text()
    assert "this takes about" in done.stderr
