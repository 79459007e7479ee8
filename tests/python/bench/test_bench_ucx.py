"""UCX in ``bench peers``, without UCX: its ways, its errors and its program's protocol."""

import importlib.util
import sys

import pytest

from farwrite.errors import NotFound, PeerDead
from farwrite_bench.peers.adapters.ucx import UcxLoops, build, environment, find_library, settings
from farwrite_bench.peers.peer import BANDWIDTH, LATENCY
from farwrite_bench.program import Program
from farwrite_bench.sizes import MIB

ANSWERS = """
import json, os, sys
print(json.dumps({"version": "1.2.3", "library": os.environ["LD_LIBRARY_PATH"]}), flush=True)
for line in sys.stdin:
    if "putflag " in line:
        sys.exit(3)
    answer = {"seconds": 0.5, "cpu_seconds": 0.75, "bad": 0}
    print(json.dumps({**answer, "samples_us": [float(line.split()[2])]}), flush=True)
"""


class Faked:
    """A program that takes these times, by way, and reads at these rates."""

    def __init__(self, p50_us, gb_s, bad=0):
        self.p50_us, self.gb_s, self.bad = p50_us, gb_s, bad
        self.seeds = []

    def answer(self):
        return {"version": "1", "library": "lib"}

    def ask(self, way, kind, size, transfers, window, seed):
        self.seeds.append(seed)
        assert window == (1 if kind == LATENCY else 4)
        seconds = size * transfers / 1e9 / self.gb_s[way]
        samples_us = [self.p50_us[way]] * transfers if kind == LATENCY else []
        return {"seconds": seconds, "cpu_seconds": 1.0, "bad": self.bad, "samples_us": samples_us}


def test_each_loop_takes_the_better_way():
    program = Faked({"tag": 0.2, "putflag": 0.1}, {"tag": 4.0, "putflag": 2.0})
    ucx = UcxLoops(program)
    ucx.prepare(MIB)
    assert ucx.variant == "put+flag; streams tag"
    assert ucx.run(LATENCY, MIB, 3).samples_us == [0.1] * 3
    stream = ucx.run(BANDWIDTH, MIB, 10)
    assert (stream.seconds, stream.cpu_seconds) == (pytest.approx(10 * MIB / 4e9), 1.0)
    assert len(set(program.seeds)) == len(program.seeds), "no two loops have the same payloads"


def test_a_way_that_is_better_in_both_loops_is_named_once():
    ucx = UcxLoops(Faked({"tag": 0.2, "putflag": 0.1}, {"tag": 1.0, "putflag": 2.0}))
    ucx.prepare(8)
    assert ucx.variant == "put+flag"


def test_wrong_payloads_are_counted():
    ucx = UcxLoops(Faked({"tag": 1.0, "putflag": 1.0}, {"tag": 1.0, "putflag": 1.0}, 2))
    assert (ucx.run(LATENCY, 8, 1).bad, ucx.run(BANDWIDTH, 8, 1).bad) == (2, 2)


def test_without_ucx_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(NotFound, match=r"pip install 'libucx-cu12.*farwrite-bench\[ucx\]"):
        find_library()


def test_an_unfinished_wheel_is_refused(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("libucx", tmp_path / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    with pytest.raises(NotFound, match="no headers"):
        find_library()


def test_a_program_that_cannot_be_compiled_shows_its_errors(monkeypatch, tmp_path):
    monkeypatch.setenv("FARWRITE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libucp.so").write_bytes(b"")
    with pytest.raises(NotFound, match=r"ucp/api/ucp\.h"):
        build(tmp_path)
    assert not [each for each in (tmp_path / "cache/ucx_p2p").iterdir() if each.name != ".lock"]


def test_the_program_runs_with_the_library_that_was_found(monkeypatch, tmp_path):
    monkeypatch.setenv("UCX_TLS", "posix")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/elsewhere")
    assert settings()["UCX_TLS"] == "posix", "the environment has the last word"
    command = [sys.executable, "-c", ANSWERS]
    with Program("bench peers", "the UCX program", command, environment(tmp_path)) as program:
        ucx = UcxLoops(program)
        assert ucx.settings.startswith(f"UCX 1.2.3, {tmp_path / 'lib'}:/elsewhere; UCX_TLS=posix")
        assert ucx.run(LATENCY, 8, 100).samples_us == [8.0]
        with pytest.raises(PeerDead, match="exit status 3"):
            ucx.prepare(8)
