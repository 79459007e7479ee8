"""Small runs of ``farwrite bench p2p``. No test asserts a time."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from bench_command import planned, result
from farwrite.errors import Error, InvalidArgument
from farwrite_bench.p2p import hosts
from farwrite_bench.p2p import pair as bench_pair
from farwrite_bench.p2p.benchmark import BENCHMARK
from farwrite_bench.p2p.plan import cases
from farwrite_bench.p2p.run import Measurement, Side, make_row
from farwrite_bench.sizes import MIB
from processes import wait_until
from warm_python import run_python


def farwrite(*arguments):
    return run_python("-m", "farwrite", *map(str, arguments), seconds=100)


def measure(tmp_path, *arguments):
    """Run `bench p2p --quick`; return its JSON file and its output."""
    path = tmp_path / "p2p.json"
    done = farwrite("bench", "p2p", "--quick", "--rounds", "1", "--json", str(path), *arguments)
    assert done.returncode == 0, done.stderr
    return result(path, "p2p"), done.stdout


POLL = pytest.param("poll", marks=pytest.mark.slow)  # keeps two processors busy
COPIES = {"write": 1, "read": 1, "notify": 0, "alias": 0}


@pytest.mark.parametrize("wait", [POLL, "block"])
def test_every_transfer_is_verified_and_its_copies_counted(tmp_path, wait):
    words = ("--sizes", "8,64K,1M", "--wait", wait, "--lanes", "2", "--window", "3")
    facts, table = measure(tmp_path, *words)
    found = [(row["op"], row["size"]) for row in facts["rows"]]
    assert found == [
        (op, size) for op in COPIES for size in ((0,) if op == "notify" else (8, 65536, MIB))
    ]
    assert [each["op"] for each in facts["first_use"]] == list(COPIES)
    for row in facts["rows"]:
        assert (row["fabric"], row["wait"], row["lanes"], row["window"]) == ("shm", wait, 2, 3)
        assert row["verified"] is True
        assert row["verified_transfers"] > 0
        assert row["copies"] == COPIES[row["op"]]
        assert row["registrations"] == 0
        large = row["size"] >= MIB
        assert row["ratio_of"] == ("gb_s_read" if large else "p50_us")
        assert min(row["p50_us"], row["limit_p50_us"], row["transfers_per_s"]) > 0
        assert row["op"] == "notify" or min(row["gb_s_read"], row["limit_gb_s"]) > 0
    assert "1 MiB" in table and "alias: " in table


@pytest.mark.parametrize("wait", [POLL, "block"])
def test_over_tcp_plain_sockets_are_the_limit(tmp_path, wait):
    words = ("--fabric", "tcp", "--op", "write,read", "--sizes", "8,64K,1M", "--wait", wait)
    facts, _ = measure(tmp_path, *words)
    assert len(facts["rows"]) == 6
    for row in facts["rows"]:
        assert row["fabric"] == "tcp"
        assert row["verified"] is True
        assert row["registrations"] == 0
        assert "TCP_NODELAY" in row["limit_kernel"]
        assert min(row["ratio"], row["limit_p50_us"], row["limit_gb_s_read"]) > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sizes", "12"], "multiple of 8"),
        (["--sizes", "0"], "multiple of 8"),
        (["--sizes", "64M"], "--pool of 128 MiB"),
        (["--op", "send"], "use write, read, notify, alias"),
        (["--fabric", "verbs"], "use --fabric shm or tcp"),
        (["--fabric", "tcp", "--op", "alias"], "use write, read, notify"),
        (["--lanes", "0"], "--lanes 1 to"),
        (["--lanes", "17"], "--lanes 1 to 16"),
        (["--window", "0"], "--window 1 to"),
        (["--pool", "1M"], "at least 4M"),
        (["--peer", "h:1", "--op", "alias"], "no operation 'alias' between hosts; use write"),
        (["--peer", "h:1", "--sizes", "12"], "a size of 12 B; use multiples of 8 bytes"),
        (["--peer", "h:1", "--sizes", "32M"], "up to --pool, 16 MiB"),
        (["--peer", "h:1", "--window", "2000"], "--window 1 to 1024"),
    ],
)
def test_a_bad_argument_is_refused_with_what_would_work(words, said):
    with pytest.raises(InvalidArgument, match=said):
        planned(BENCHMARK, "--quick", *words)


def test_a_size_that_fills_the_pool_gets_fewer_lanes_and_a_smaller_window():
    made, record = planned(
        BENCHMARK, "--quick", "--sizes", "16M", "--pool", "64M", "--lanes", "4", "--window", "8"
    )
    (case,) = cases(made, "write")
    assert (case.lanes, case.window) == (2, 2)
    assert "a pool of 64 MiB may fit into the caches" in record.notes[-1]


SETUP = bench_pair.Setup("write", "shm", 1, 4 * MIB, "block")
PHASE = {"op": "write", "kind": "bandwidth", "limit": False, "size": 4096, "transfers": 8}


def test_the_sender_is_gone_after_a_run(tmp_path):
    with bench_pair.Pair(SETUP, tmp_path / "log") as pair:
        child = pair._child._process
        pair.run(PHASE)
        assert child.exitcode is None
    assert child.exitcode == 0


def test_a_sender_that_dies_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(Error), bench_pair.Pair(SETUP, tmp_path / "log") as pair:
        child = pair._child._process
        child.kill()
        child.join()
        pair.run(PHASE)
    assert child.exitcode is not None


def test_a_phase_that_does_not_fit_is_refused_by_both_sides(tmp_path):
    phase = {**PHASE, "size": 2 * MIB, "window": 64}
    with (
        pytest.raises(Error, match="exceed the pool"),
        bench_pair.Pair(SETUP, tmp_path / "log") as pair,
    ):
        pair.run(phase)


def test_runs_leave_no_descriptor_open(tmp_path):
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    with bench_pair.Pair(SETUP, tmp_path / "log"):
        pass
    before = open_files()
    with bench_pair.Pair(SETUP, tmp_path / "log"):
        pass
    wait_until(lambda: open_files() <= before)  # large memory is unmapped in a thread of its own


@pytest.fixture
def serving():
    """The address of a `bench p2p --serve` that ends after its first peer."""
    words = ("bench", "p2p", "--serve", "--once", "--fabric", "tcp", "--wait", "block")
    with subprocess.Popen(
        [sys.executable, "-m", "farwrite", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        yield process.stdout.readline().removeprefix("bench: serving at ").strip()
        process.kill()


def test_between_hosts_every_word_is_checked_and_both_sides_counters_shown(tmp_path, serving):
    path = tmp_path / "hosts.json"
    words = ("--pool", "4M", "--sizes", "64K,1M", "--rounds", "2", "--transfers", "20")
    done = farwrite("bench", "p2p", "--peer", serving, *words, "--fabric", "tcp", "--json", path)
    assert done.returncode == 0, done.stderr
    facts = result(path, "p2p")
    assert facts["channel"]["fabric"] == "tcp"
    assert [(row["op"], row["size"]) for row in facts["rows"]] == [
        ("write", 65536),
        ("write", MIB),
        ("read", 65536),
        ("read", MIB),
    ]
    for row in facts["rows"]:
        assert row["verified"] is True
        assert (row["transfers"], row["rounds"]) == (20, 2)
        assert min(row["gb_s"], row["single_us"]) > 0
        for side in row["counters"].values():
            assert side["registrations"] == side["adapter_registrations"] == 0
    assert "1 MiB" in done.stdout


def test_a_series_that_the_other_host_answers_with_an_error_costs_one_row(monkeypatch):
    carry_out, checks = hosts.Service.answer, []

    def answer(service, request):
        if request["do"] == "check":
            checks.append(request)
            if len(checks) == 1:
                raise OSError("no memory")
        return carry_out(service, request)

    monkeypatch.setattr(hosts.Service, "answer", answer)
    plan = hosts.HostPlan("", None, None, "block", ("write",), (4096, 8192), 4, 1, MIB, 10)
    with (
        hosts.open_device("tcp", None, "block") as device,
        ThreadPoolExecutor(1) as threads,
    ):
        served = threads.submit(hosts.serve, device, True)
        plan = replace(plan, peer=device.endpoint)
        failed, row = hosts.measure(plan, lambda *_: None)["rows"]
        served.result(20)
    assert failed == {"op": "write", "size": 4096, "error": "the serving side: no memory"}
    assert (row["size"], row["verified"]) == (8192, True)


def test_wrong_words_are_counted():
    words = np.zeros(100, np.uint64)
    hosts.fill(words, 3)
    assert hosts.wrong_words(words, 3) == 0
    assert hosts.wrong_words(words, 4) == 100
    words[[5, 50]] = 0
    assert hosts.wrong_words(words, 3) == 2


def side(**changes):
    facts = {
        "samples_us": [1.0, 2.0, 9.0],
        "p50_us": [2.0, 2.0],
        "gb_s": [4.0, 6.0],
        "gb_s_read": [3.0, 3.6],
        "transfers_s": [10.0, 12.0],
        "cpu_s_per_gb": [0.5, 0.7],
        "transfers": 20,
    }
    return Side(**{**facts, **changes})


def measured(size, wrong=None, **changes):
    """Return the row of a write, beside a limit of twice the rate."""
    limit = side(gb_s=[8.0, 12.0], gb_s_read=[6.0, 6.0], p50_us=[1.0, 0.5])
    made, _ = planned(BENCHMARK, "--quick", "--sizes", f"{size}")
    (case,) = cases(made, "write")
    measurement = Measurement(None, case)
    measurement.ours, measurement.limit = side(**changes), wrong or limit
    return make_row(measurement, made)


def test_a_row_compares_rates_of_large_transfers_and_times_of_small_ones_by_round():
    large, small = measured(MIB), measured(8)
    assert (large["ratio_of"], large["ratio"], large["ratio_spread"]) == (
        "gb_s_read",
        0.55,
        [0.5, 0.6],
    )
    assert (large["target"], large["target_met"]) == (">=0.9", False)
    assert (small["ratio_of"], small["ratio"], small["ratio_spread"]) == ("p50_us", 3.0, [2.0, 4.0])
    assert (small["target"], small["target_met"]) == ("<=2.0", False)
    assert (large["p50_us"], large["p99_us"], large["limit_gb_s"]) == (2.0, 9.0, 10.0)
    assert large["ratio_unread"] == 0.5


def test_a_chart_shows_the_ratio_of_the_table_and_none_of_another_figure():
    large, small = measured(MIB), measured(8)
    (drawn,) = BENCHMARK.figures({"rows": [small, {**large, "op": "alias"}]})
    # The medians of both sides alone would make it 1.0x, and the large row's is a ratio of rates.
    assert set(re.findall(r"\((\S+x)\)", drawn)) == {"3.0x"}


def test_a_wrong_payload_of_ours_is_counted_and_one_of_the_limit_is_an_error():
    row = measured(8, bad=3)
    assert (row["verified"], row["wrong_transfers"]) == (False, 3)
    with pytest.raises(Error, match="moved 1 wrong payloads"):
        measured(8, wrong=side(bad=1))
