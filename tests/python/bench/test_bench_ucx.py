"""``bench p2p --against ucx`` without UCX: its rows, its errors and its program's protocol."""

import importlib.util
import json
import sys

import pytest

from farwrite.errors import Internal, InvalidArgument, NotFound, PeerDead
from farwrite_bench.plan import (
    DEFAULT_SIZES,
    KIB,
    MIB,
    OPS,
    POOL_BYTES,
    ROUNDS,
    Plan,
    cases,
    expected_seconds,
)
from farwrite_bench.ucx import build, rows
from farwrite_bench.ucx.program import Figures, UcxProgram, settings

GOOD = Plan("shm", ("write",), (8, 64 * KIB, MIB), "poll", 1, 4, 64 * MIB, 2, False, "ucx")

ANSWERS = """
import json, os, sys
print(json.dumps({"version": "1.2.3", "library": os.environ["LD_LIBRARY_PATH"]}), flush=True)
for line in sys.stdin:
    if "put " in line:
        sys.exit(3)
    answer = {"seconds": 0.5, "bad": 0, "samples_us": [float(line.split()[2])]}
    print(json.dumps(answer), flush=True)
"""


class Faked:
    """A program that takes these times, by way, and reads at these rates."""

    def __init__(self, p50_us, gb_s, bad=0):
        self.p50_us, self.gb_s, self.bad = p50_us, gb_s, bad

    def run(self, way, kind, size, transfers, **_):
        if kind == "latency":
            return Figures(1.0, self.bad, [self.p50_us[way]] * transfers)
        return Figures(size * transfers / 1e9 / self.gb_s[way], self.bad, [])


def measured(case, program, p50_us, gb_s_read):
    rival = rows.Rival(program, case)
    rival.round()
    rival.forget()
    for _ in p50_us:
        rival.round()
    return rows.row(case, p50_us, gb_s_read, rival)


def faked(bad=0):
    p50_us = {"tag": 0.2, "putflag": 0.1, "put": 0.01}
    return Faked(p50_us, {"tag": 2.0, "putflag": 4.0, "put": 9.0}, bad)


def test_farwrite_is_compared_with_the_better_way_that_notifies():
    small, middle, large = cases(GOOD, "write")
    row = measured(small, faked(), [0.12, 0.13], [1.0, 1.0])
    assert (row["better"], row["ratio_of"], row["target"]) == ("put_flag", "p50_us", "<=1.3")
    assert row["ratio"] == pytest.approx(1.25)
    assert row["target_met"] is True
    assert (row["tag_p50_us"], row["put_p50_us"], row["put_gb_s"]) == (0.2, 0.01, 9.0)
    assert measured(middle, faked(), [0.12], [1.0])["target_met"] is False, "not ahead"
    row = measured(large, faked(), [0.12], [5.0])
    assert (row["better"], row["ratio"], row["ratio_of"]) == ("put_flag", 1.25, "gb_s_read")
    assert row["target_met"] is True
    assert "1.25 of GB/s read" in rows.cells(row)
    assert len(rows.cells(row)) == len(rows.HEADERS)


def test_a_wrong_payload_of_ucx_is_an_error():
    with pytest.raises(Internal, match="wrong payloads"):
        measured(cases(GOOD, "write")[0], faked(bad=1), [0.1], [1.0])


def test_without_ucx_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(NotFound, match=r"pip install 'libucx-cu12.*farwrite-bench\[ucx\]"):
        build.find_library()


def test_an_unfinished_wheel_is_refused(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("libucx", tmp_path / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    with pytest.raises(NotFound, match="no headers"):
        build.find_library()


def test_a_program_that_cannot_be_compiled_shows_its_errors(monkeypatch, tmp_path):
    monkeypatch.setenv("FARWRITE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libucp.so").write_bytes(b"")
    with pytest.raises(NotFound, match=r"ucp/api/ucp\.h"):
        build.build(tmp_path)
    assert not [each for each in (tmp_path / "cache/ucx_p2p").iterdir() if each.name != ".lock"]


def test_the_program_runs_with_the_library_that_was_found(monkeypatch, tmp_path):
    monkeypatch.setenv("UCX_TLS", "posix")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/elsewhere")
    assert settings()["UCX_TLS"] == "posix", "the environment has the last word"
    with UcxProgram([sys.executable, "-c", ANSWERS], tmp_path) as program:
        assert program.identity["library"] == f"{tmp_path / 'lib'}:/elsewhere"
        assert program.run("tag", "latency", 8, 100) == Figures(0.5, 0, [8.0])
        with pytest.raises(PeerDead, match="exit status 3"):
            program.run("put", "latency", 8, 100)


def test_settings_are_printable():
    assert json.loads(json.dumps(settings()))["UCX_TLS"]


@pytest.mark.parametrize(
    "changes", [{"fabric": "tcp"}, {"wait": "block"}, {"lanes": 2}, {"ops": ("read",)}]
)
def test_ucx_is_compared_with_polled_writes_over_shm_alone(changes):
    plain = {"fabric": "shm", "wait": "poll", "lanes": 1, "ops": ("write",), **changes}
    with pytest.raises(InvalidArgument, match="--against ucx compares writes over shm"):
        Plan(
            **plain,
            sizes=(8,),
            window=4,
            pool_bytes=64 * MIB,
            rounds=2,
            quick=False,
            against="ucx",
        )


@pytest.mark.parametrize("against", [None, "ucx"])
def test_a_default_run_is_expected_to_end_within_ten_minutes(against):
    plan = Plan("shm", OPS, DEFAULT_SIZES, "poll", 1, 4, POOL_BYTES, ROUNDS, False, against)
    assert 60 < expected_seconds(plan) < 600
