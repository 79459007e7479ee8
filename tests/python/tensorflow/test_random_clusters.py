"""Random programs of clusters that change members, of some fixed seeds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import forker

from random_programs.clusters import FAIL_FAST
from random_programs.program import FABRICS, draw_program, run

SEEDS = (2, 6)


@pytest.fixture(scope="module", autouse=True)
def fail_fast() -> Iterator[None]:
    with forker(**FAIL_FAST):
        yield


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fabric", FABRICS)
def test_clusters_that_change_do_what_their_model_says(fabric: str, seed: int) -> None:
    run(draw_program("clusters", fabric, seed))
