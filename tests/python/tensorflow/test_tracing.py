"""Policy `traced`: from the first steps on, only what is sent is allocated in registered memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, Cluster, cluster

JOBS = {"ps": 1, "worker": 1}
QUIET_STEPS = 70
"""After so many without a new site tracing is off; nothing is held for edges that sent nothing."""
LOCAL_BYTES = 2_000_000
"""What the worker allocates and does not send in a step of `training`."""

# How many steps, and of what; counters are read after each entry. The last function comes when
# tracing has ended.
STEPS = (
    *[(1, "training")] * 5,
    *[(1, "passed")] * 3,
    *[(1, "frozen")] * 4,
    (QUIET_STEPS, "training"),
    (1, "training"),
    *[(1, "shapes")] * 7,
)


@dataclass(frozen=True)
class Step:
    """What one entry of `STEPS` brought, and what each task counted then and had after it."""

    case: str
    result: Any
    gained: dict[str, dict[str, int]]
    after: dict[str, dict[str, Any]]
    reasons: list[str]
    """Why tensors of the parameter server's edges were copied."""

    def total(self, counter: str) -> int:
        return sum(gained[counter] for gained in self.gained.values())


def take_steps(made: Cluster) -> Iterator[Step]:
    client = made.start_program("tracing.py")
    try:
        assert client.stdin is not None and client.stdout is not None

        def answer() -> Any:
            for line in client.stdout or ():
                if line.strip():
                    return json.loads(line)
            raise AssertionError(f"the client ended:\n{client.stderr.read()[-3000:]}")  # type: ignore

        answer()
        before = made.stats()
        for times, case in STEPS:
            client.stdin.write(f"{times} {case}\n")
            client.stdin.flush()
            result = answer()
            after = made.stats()
            gained = {
                task: {
                    name: value - before[task][name]
                    for name, value in stats.items()
                    if isinstance(value, int)
                }
                for task, stats in after.items()
            }
            edges = made.tasks["ps0"].ask("edges")
            reasons = [edge["reason"] for edge in edges if edge["reason"]]
            yield Step(case if times == 1 else "", result, gained, after, reasons)
            before = after
    finally:
        client.kill()
        client.communicate()


def record(folder: Path, policy: str) -> list[Step]:
    with cluster(folder, JOBS, FARWRITE, {"FARWRITE_TF_ALLOCATION": policy}) as made:
        return list(take_steps(made))


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    return record(tmp_path_factory.mktemp("traced"), "traced")


def of(steps: list[Step], case: str) -> list[Step]:
    return [step for step in steps if step.case == case]


def test_results_are_those_of_unified_bit_for_bit(traced: list[Step], tmp_path: Path) -> None:
    unified = record(tmp_path, "unified")
    assert [step.result for step in traced] == [step.result for step in unified]
    registered = [steps[-1].after["worker0"]["arena"]["peak_used"] for steps in (traced, unified)]
    assert registered[0] < LOCAL_BYTES <= registered[1]


def test_a_gradient_is_copied_once_and_a_variable_until_it_is_replaced(traced: list[Step]) -> None:
    training = of(traced, "training")
    assert training[0].gained["worker0"]["staged_foreign_memory"] == 1
    assert training[0].gained["ps0"]["staged_foreign_memory"] > 0
    for step in training[1:]:
        assert step.gained["worker0"]["staged_foreign_memory"] == 0
        assert step.gained["worker0"]["zero_copy_tensors"] == 1
    for step in training[3:]:
        assert step.total("copies") == step.total("staged_lent_again") == 0
        assert step.gained["ps0"]["zero_copy_tensors"] == 2
    # The variable that was replaced is not kept.
    assert training[-1].after["worker0"]["held_copies"] == 0


def test_views_and_forwarded_buffers_lead_to_who_allocated_them(traced: list[Step]) -> None:
    first, *later = of(traced, "passed")
    assert first.gained["ps0"]["staged_foreign_memory"] == 2
    named = [reason for reason in first.reasons if "(allocation 1), seen for the first" in reason]
    assert any("Uniform" in reason for reason in named)
    for step in later:
        assert step.total("copies") == 0
        assert step.gained["ps0"]["zero_copy_tensors"] == 2


def test_what_never_changes_is_copied_once(traced: list[Step]) -> None:
    first, *later = of(traced, "frozen")
    assert first.gained["ps0"]["staged_foreign_memory"] == 1
    for step in later:
        assert step.gained["ps0"]["copies"] == 0
        assert step.gained["ps0"]["staged_lent_again"] == 1
        assert step.after["ps0"]["held_copies"] == 1
        assert step.after["ps0"]["held_copy_bytes"] == 160_000
    assert any("by no operation" in reason for reason in first.reasons)
    assert any("does not change" in reason for reason in later[-1].reasons)


def test_tracing_ends_and_begins_anew_with_another_function_whose_sizes_change(
    traced: list[Step],
) -> None:
    assert traced[0].after["ps0"]["tracing"] == traced[0].after["worker0"]["tracing"] == 1
    quiet, shapes = of(traced, "training")[-1], of(traced, "shapes")
    for task in ("ps0", "worker0"):
        assert quiet.after[task]["tracing"] == 0
        assert quiet.gained[task]["traced_allocations"] == 0
    # What was held for a function that runs no more has been let go.
    assert quiet.after["ps0"]["held_copies"] == quiet.after["ps0"]["held_copy_bytes"] == 0
    assert shapes[0].total("staged_foreign_memory") == 2
    assert shapes[0].after["ps0"]["tracing"] == 1
    # The worker only returns its result, an eager copy: it learns of the function by that.
    assert sum(step.gained["ps0"]["copies"] for step in shapes[1:]) == 0
    assert sum(step.gained["worker0"]["copies"] for step in shapes[2:]) == 0
    assert sum(step.total("zero_copy_tensors") for step in shapes[2:]) == 6
