"""The Prometheus text that the plug-in's counters become."""

from __future__ import annotations

import re
from typing import Any, get_type_hints

from farwrite.plugin.stats import COUNTERS, Stats, prometheus_text

STATS: dict[str, Any] = {
    **{counter.name: 0 for counter in COUNTERS},
    "pushes_inline": 7,
    "pushes_dead": 2,
    "pulls_received": 1,
    "pulls_unpushed": 1,
    "pulls_no_memory": 4,
    "landing": {"slots": 2, "held": 1, "bytes": 100},
    "arena": {"limit": 100, "segments": 2},
    "links": [
        {"peer": 'a"b\\c\n', "transport": "grpc", "fabric": "", "reason": "no plug-in"},
        {"peer": 'a"b\\c\n', "transport": "grpc", "fabric": "", "reason": "no plug-in"},
    ],
}
SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)(\{(?P<labels>[a-z_]+="([^"\\\n]|\\["\\n])*"(,[a-z_]+="([^"\\\n]|\\["\\n])*")*)\})?'
    r" (?P<value>\d+)"
)


def test_every_counter_of_the_plug_in_is_in_the_type() -> None:
    types = get_type_hints(Stats)
    names = [counter.name for counter in COUNTERS]
    assert {"pushes_inline", "waiting_tensors"} <= set(names)
    assert list(types) == [*names, "landing", "arena", "links"]
    assert all(types[name] is int for name in names)


def test_every_line_is_a_header_or_a_sample_of_the_metric_above() -> None:
    metric, seen = "", []
    for line in prometheus_text(STATS).splitlines():
        if line.startswith("# HELP "):
            metric = line.split()[2]
            assert metric not in seen
            seen.append(metric)
        elif line.startswith("# TYPE "):
            assert line.split()[2] == metric
            assert line.split()[3] == ("counter" if metric.endswith("_total") else "gauge")
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample["name"] == metric


def test_no_series_appears_twice() -> None:
    lines = [line for line in prometheus_text(STATS).splitlines() if not line.startswith("#")]
    series = [line.rpartition(" ")[0] for line in lines]
    assert len(series) == len(set(series))


def test_kinds_and_reasons_are_labels_that_add_up() -> None:
    lines = prometheus_text(STATS).splitlines()
    assert 'farwrite_tensorflow_pushes_total{kind="inline"} 7' in lines
    assert 'farwrite_tensorflow_pulls_total{reason="no_memory"} 4' in lines
    # Dead tensors are inline ones, and what was received is the other side's pull.
    assert "farwrite_tensorflow_pushes_dead_total 2" in lines
    assert "farwrite_tensorflow_pulls_received_total 1" in lines
    assert "farwrite_tensorflow_pulls_unpushed_total 1" in lines


def test_labels_are_escaped() -> None:
    assert 'peer="a\\"b\\\\c\\n"' in prometheus_text(STATS)
