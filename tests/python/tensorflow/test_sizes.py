"""The sizes of tensors that crossed tasks (X13b): in farwrite run, and in bench sizes."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from farwrite.errors import Internal
from farwrite.plugin.edges import Edge
from farwrite.run.sizes import HEADERS, LIMITS, cells, size_classes
from farwrite_experiments.cluster.observed import Observed
from farwrite_experiments.networks.network import SIX
from farwrite_experiments.sizes import make_row, overall, sizes_of_step

KIB, MIB = 2**10, 2**20


def _edge(ways: dict[str, int], size: int, **more: Any) -> Edge:
    return cast("Edge", {"ways": ways, "bytes": size, "control": False, **more})


def test_tensors_are_counted_by_size_and_way() -> None:
    classes = size_classes(
        [
            _edge({"inline": 3}, 3 * 100),
            _edge({"alias": 1, "pull": 1}, 2 * 2 * MIB),
            _edge({"alias": 4}, 4 * 3 * MIB),
            _edge({}, 0),
            _edge({"inline": 5}, 0, control=True),
        ]
    )
    small, large = classes
    assert (small.least, small.limit, small.tensors, small.bytes) == (0, KIB, 3, 300)
    assert (large.least, large.limit) == (MIB, 10 * MIB)
    assert (large.tensors, large.bytes) == (6, 16 * MIB)
    assert large.ways == {"alias": 5, "pull": 1}
    assert json.loads(json.dumps(large.facts())) == {
        **{"least": MIB, "limit": 10 * MIB, "tensors": 6, "bytes": 16 * MIB},
        "ways": {"alias": 5, "pull": 1},
    }
    lines = list(cells(classes))
    assert lines[0][:3] == ("0 B to 1 KiB", "3", "33.3%")
    assert lines[1][-1] == "alias 5, pull 1"
    assert all(len(line) == len(HEADERS) for line in lines)


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_belongs_to_the_class_above(limit: int) -> None:
    (found,) = size_classes([_edge({"alias": 1}, limit)])
    assert found.least == limit
    (found,) = size_classes([_edge({"alias": 1}, limit - 1)])
    assert found.limit == limit


def test_nothing_sent_makes_no_class() -> None:
    assert size_classes([]) == []
    assert list(cells([])) == []


def test_the_sizes_of_a_step_are_what_the_tasks_sent_in_it() -> None:
    before = [Observed("weights", 1, 100), Observed("other", 7, 7)]
    after = [Observed("weights", 3, 300), Observed("gradient", 4, 32), Observed("other", 7, 7)]
    assert sizes_of_step(before, after, 2) == [100, 8, 8]
    with pytest.raises(Internal, match="gradient sent 3 tensors"):
        sizes_of_step([], [Observed("gradient", 3, 24)], 2)


def test_the_six_networks_have_the_papers_distribution() -> None:
    """Figure 6: half are over 10 KB, a fifth over 1 MB, and those have 96 % of the bytes."""
    rows = [make_row(each, 1, 1, [v.bytes for v in each.variables] * 2) for each in SIX]
    shares = overall(rows)
    assert shares["share_over_10KB"] > 0.5
    assert shares["share_over_1MB"] > 0.2
    assert shares["bytes_share_over_1MB"] == pytest.approx(0.96, abs=0.015)
