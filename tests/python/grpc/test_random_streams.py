"""Random programs of gRPC's calls and faults, of some fixed seeds, and those that once failed."""

from __future__ import annotations

import pytest
from grpc_programs import require_programs

from random_programs.program import FABRICS, Program, draw_program, run

require_programs("connection_client", "connection_server")

SEEDS = range(2)
KEPT = {
    "a required connection never ended whose server died in the upgrade": (
        "streams shm 566 stream:267 stream:823 kill_server:358 start_server:705 call:624"
    ),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fabric", FABRICS)
def test_random_calls_and_faults_do_what_their_model_says(fabric: str, seed: int) -> None:
    run(draw_program("streams", fabric, seed))


@pytest.mark.parametrize("program", KEPT.values(), ids=KEPT.keys())
def test_calls_that_failed_once_go_well(program: str) -> None:
    run(Program.parse(program))
