"""Small runs of ``farwrite bench p2p``. No test asserts a time."""

import os
import subprocess
import sys

import numpy as np
import pytest

from bench_command import result
from farwrite.errors import Error, InvalidArgument
from farwrite_bench.p2p import hosts
from farwrite_bench.p2p import pair as bench_pair
from farwrite_bench.p2p.plan import Plan, cases
from farwrite_bench.p2p.run import Measurement, Side, make_row
from farwrite_bench.sizes import MIB
from processes import wait_until
from warm_python import run_python

ROW_KEYS = {
    "fabric",
    "op",
    "wait",
    "size",
    "lanes",
    "window",
    "p50_us",
    "p99_us",
    "gb_s",
    "gb_s_read",
    "copies",
    "registrations",
    "limit_gb_s",
    "limit_p50_us",
    "ratio",
    "verified",
}


def farwrite(*arguments):
    return run_python("-m", "farwrite", *map(str, arguments), seconds=100)


def measure(tmp_path, *arguments):
    """Run `bench p2p --quick`; return its JSON file and its output."""
    path = tmp_path / "p2p.json"
    done = farwrite("bench", "p2p", "--quick", "--rounds", "1", "--json", str(path), *arguments)
    assert done.returncode == 0, done.stderr
    return result(path, "p2p"), done.stdout


@pytest.mark.parametrize(("op", "copies"), [("write", 1), ("read", 1), ("alias", 0)])
def test_every_transfer_is_verified_and_its_copies_counted(tmp_path, op, copies):
    facts, table = measure(tmp_path, "--op", op, "--sizes", "8,64K,1M", "--wait", "block")
    assert {"machine", "load", "rows"} <= facts.keys()
    assert [row["size"] for row in facts["rows"]] == [8, 65536, MIB]
    for row in facts["rows"]:
        assert row.keys() >= ROW_KEYS
        assert row["op"] == op
        assert row["fabric"] == "shm"
        assert row["verified"] is True
        assert row["verified_transfers"] > 0
        assert row["copies"] == copies
        assert row["registrations"] == 0
        assert row["ratio_of"] == ("gb_s_read" if row["size"] >= MIB else "p50_us")
        assert min(row["p50_us"], row["gb_s_read"], row["limit_gb_s"], row["limit_p50_us"]) > 0
    assert "1 MiB" in table


POLL = pytest.param("poll", marks=pytest.mark.slow)  # keeps two processors busy


@pytest.mark.parametrize("wait", [POLL, "block"])
@pytest.mark.parametrize("op", ["write", "read"])
def test_over_tcp_plain_sockets_are_the_limit(tmp_path, op, wait):
    facts, table = measure(
        tmp_path, "--fabric", "tcp", "--op", op, "--sizes", "8,64K,1M", "--wait", wait
    )
    for row in facts["rows"]:
        assert row["fabric"] == "tcp"
        assert row["verified"] is True
        assert row["registrations"] == 0
        assert "TCP_NODELAY" in row["limit_kernel"]
        assert min(row["ratio"], row["limit_p50_us"], row["limit_gb_s_read"]) > 0
    assert "unread" in table


@pytest.mark.parametrize("wait", [POLL, "block"])
def test_a_notification_is_one_row_without_bytes(tmp_path, wait):
    facts, _ = measure(tmp_path, "--op", "notify", "--wait", wait)
    (row,) = facts["rows"]
    assert (row["size"], row["copies"], row["wait"]) == (0, 0, wait)
    assert row["verified"] is True
    assert row["p50_us"] > 0


def test_a_polled_write_is_verified_too(tmp_path):
    facts, _ = measure(tmp_path, "--op", "write", "--wait", "poll", "--sizes", "1M")
    assert [row["verified"] for row in facts["rows"]] == [True]


def test_lanes_and_window_are_those_of_the_run(tmp_path):
    arguments = ("--op", "write,read", "--lanes", "2", "--window", "3", "--sizes", "4K,1M")
    facts, _ = measure(tmp_path, *arguments, "--wait", "block")
    assert [row["op"] for row in facts["rows"]] == ["write", "write", "read", "read"]
    for row in facts["rows"]:
        assert (row["lanes"], row["window"]) == (2, 3)
        assert row["verified"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sizes", "12"], "multiple of 8"),
        (["--sizes", "0"], "multiple of 8"),
        (["--sizes", "64M"], "--pool of 128 MiB"),
        (["--op", "send"], "use write, read, notify, alias"),
        (["--fabric", "verbs"], "use --fabric shm or tcp"),
        (["--fabric", "tcp", "--op", "alias"], "use write, read, notify"),
        (["--wait", "sometimes"], "poll"),
        (["--lanes", "0"], "--lanes 1 to"),
        (["--window", "0"], "--window 1 to"),
        (["--rounds", "0"], "use 1 or more"),
        (["--pool", "1M"], "at least 4M"),
    ],
)
def test_a_bad_argument_is_refused_with_what_would_work(arguments, said):
    done = farwrite("bench", "p2p", "--quick", *arguments)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


SETUP = bench_pair.Setup("write", "shm", 1, 4 * MIB, "block")


def test_the_sender_is_gone_after_a_run():
    with bench_pair.Pair(SETUP) as pair:
        child = pair._child._process
        pair.run(bench_pair.Phase("write", "bandwidth", False, 4096, 8))
        assert child.poll() is None
    assert child.poll() == 0


def test_a_sender_that_dies_is_an_error_and_leaves_nothing():
    with pytest.raises(Error), bench_pair.Pair(SETUP) as pair:
        child = pair._child._process
        child.kill()
        child.wait()
        pair.run(bench_pair.Phase("write", "bandwidth", False, 4096, 8))
    assert child.poll() is not None


def test_a_phase_that_does_not_fit_is_refused_by_both_sides():
    phase = bench_pair.Phase("write", "bandwidth", False, 2 * MIB, 8, window=64)
    with pytest.raises(Error, match="exceed the pool"), bench_pair.Pair(SETUP) as pair:
        pair.run(phase)


def test_runs_leave_no_descriptor_open():
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    with bench_pair.Pair(SETUP):
        pass
    before = open_files()
    with bench_pair.Pair(SETUP):
        pass
    wait_until(lambda: open_files() <= before)  # large memory is unmapped in a thread of its own


def plan(**changes):
    facts = {
        "fabric": "shm",
        "ops": ("write",),
        "sizes": (8,),
        "wait": "poll",
        "lanes": 1,
        "window": 4,
        "pool_bytes": 64 * MIB,
        "rounds": 1,
        "quick": True,
    }
    return Plan(**{**facts, **changes})


def test_a_size_that_fills_the_pool_gets_fewer_lanes_and_a_smaller_window():
    (case,) = cases(plan(sizes=(16 * MIB,), lanes=4, window=8), "write")
    assert (case.lanes, case.window) == (2, 2)


def test_more_lanes_than_the_harness_has_are_refused():
    with pytest.raises(InvalidArgument, match="lanes"):
        plan(lanes=17)


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


def test_wrong_words_are_counted():
    words = np.zeros(100, np.uint64)
    hosts.fill(words, 3)
    assert hosts.wrong_words(words, 3) == 0
    assert hosts.wrong_words(words, 4) == 100
    words[[5, 50]] = 0
    assert hosts.wrong_words(words, 3) == 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ops": ("alias",)}, "no operation 'alias' between hosts; use write or read"),
        ({"sizes": (12,)}, "a size of 12 B; use multiples of 8 bytes"),
        ({"sizes": (8 * MIB,)}, "up to --pool, 4 MiB"),
        ({"window": 0}, "--window 1 to 1024"),
    ],
)
def test_what_cannot_be_measured_between_hosts_is_refused(changes, sentence):
    plan = {"ops": ("write",), "sizes": (8,), "window": 4, "rounds": 1, "transfers": 0}
    plan |= {"peer": "h:1", "fabric": None, "listen": None, "wait": "poll"}
    with pytest.raises(InvalidArgument, match=sentence):
        hosts.HostPlan(**{**plan, "pool_bytes": 4 * MIB, **changes})


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


def measured(size, **changes):
    """Return the row of a write, beside a limit of twice the rate."""
    (case,) = cases(plan(sizes=(size,)), "write")
    measurement = Measurement(None, case)
    measurement.ours = side(**changes)
    measurement.limit = side(gb_s=[8.0, 12.0], gb_s_read=[6.0, 6.0], p50_us=[1.0, 0.5])
    return make_row(measurement, plan())


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


def test_a_wrong_payload_of_ours_is_counted_and_one_of_the_limit_is_an_error():
    row = measured(8, bad=3)
    assert (row["verified"], row["wrong_transfers"]) == (False, 3)
    (case,) = cases(plan(), "write")
    measurement = Measurement(None, case)
    measurement.ours, measurement.limit = side(), side(bad=1)
    with pytest.raises(Error, match="moved 1 wrong payloads"):
        make_row(measurement, plan())
