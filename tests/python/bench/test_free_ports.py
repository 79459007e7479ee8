"""The search for free ports of a cluster's servers."""

from __future__ import annotations

import re
import socket

import pytest

import farwrite as fw
from farwrite_bench.cluster.process import free_ports
from farwrite_bench.cluster.ways import addresses


def test_the_search_stays_in_the_named_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARWRITE_BENCH_PORTS", "16400-16499")
    found = free_ports(4)
    assert len(set(found)) == 4
    assert all(16400 <= port <= 16499 for port in found)


def test_a_cluster_without_servers_needs_no_port() -> None:
    assert free_ports(0) == []
    assert addresses() == {}


def test_a_port_that_is_taken_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("FARWRITE_BENCH_PORTS", f"{port}-{port}")
        with pytest.raises(fw.ResourceExhausted, match="find 1 free ports: the search found 0"):
            free_ports(1)


@pytest.mark.parametrize("named", ["20000", "20000-19999", "80-90", "20000-70000", "a-b"])
def test_what_is_no_range_is_refused(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARWRITE_BENCH_PORTS", named)
    with pytest.raises(fw.InvalidArgument, match=re.escape(f"={named!r} is not a range")):
        free_ports(1)
