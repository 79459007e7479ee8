"""Every call under every fault ends as its row of the table says, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import enum
import math
import os
import re
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

import farwrite as fw
import held
from matrix import at_once, command_line
from matrix import calls as table_of_calls
from matrix.calls import EVERYWHERE, ROWS, WITHOUT_HANDLE
from matrix.command_line import Problems, drawn, run, started
from matrix.kinds import FAULTS, KINDS, SHORT, peer
from matrix.made import ALLOWANCE, Made
from matrix.table import limits, table

HERE = Path(__file__).parent
CONTRACT = HERE.parents[2] / "docs" / "explanation" / "contract.md"
ROWS_OF_CPP = HERE.parents[1] / "fault" / "matrix_rows.cc"
NAMES_OF_CPP = {
    "MemoryRegion": "RegisteredArray",
    "RemoteRegion": "RemoteArray",
    "LeasedSegment": "Lease",
}
NO_TWINS = {
    "Completion.wait",  # Python's row has one that was over before
    "Segment.post",  # in Python what posts, and not the posting
}

MADE_BY_PYTHON = {
    "__init__", "__new__", "__init_subclass__", "__class_getitem__", "__subclasshook__",
    "__orig_bases__", "__slots__", "__getstate__", "__reduce__", "__replace__",
}  # fmt: skip


def entries(kind: type) -> set[str]:
    """The names that a program may use on an object of a class of Farwrite."""
    names = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("farwrite"):
            continue
        for name in vars(base):
            special = name.startswith("__") and name.endswith("__")
            if special:
                public = callable(getattr(base, name)) and name not in MADE_BY_PYTHON
            else:
                public = not name.startswith("_")
            if public:
                names.add(name)
    return names - set(EVERYWHERE)


def holds_no_handle(kind: type) -> bool:
    """Whether objects of the class are plain values."""
    plain = (BaseException, tuple, enum.Enum)
    return dataclasses.is_dataclass(kind) or issubclass(kind, plain)


def test_the_table_has_every_entry_of_every_class_and_no_other() -> None:
    kinds = {
        name: kind
        for package in (fw, fw.box, fw.box.training)
        for name in package.__all__
        if isinstance(kind := getattr(package, name), type)
        and name not in WITHOUT_HANDLE
        and not holds_no_handle(kind)
    }
    found = {name: entries(kind) for name, kind in kinds.items()}
    assert {name: set(rows) for name, rows in ROWS.items()} == found


def test_calls_of_cpp_have_the_kinds_of_their_twins() -> None:
    rows = rf'\b({"|".join(KINDS)})\(\s*"(\w+)::(\w+)"'
    of_cpp = re.findall(rows, ROWS_OF_CPP.read_text())
    pairs = [
        (f"{kind} {name}.{entry}", f"{ROWS[name][entry].kind} {name}.{entry}")
        for kind, name_of_cpp, entry in of_cpp
        if entry in ROWS.get(name := NAMES_OF_CPP.get(name_of_cpp, name_of_cpp), {})
        and f"{name}.{entry}" not in NO_TWINS
    ]
    assert pairs
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


def test_the_contract_shows_the_table() -> None:
    contract = CONTRACT.read_text()
    assert "\n".join(table()) in contract
    assert "\n".join(limits()) in contract


# In the second one calls wait until their limit. The last one is left to the nightly run.
TOGETHER = [
    ["killed", "closed", "restarted", "shut", "parent", "descriptors", "interrupted"],
    ["stopped"],
    ["babbling"],
]
RARER = ("closed", "babbling", "shut", "stopped")


def test_every_fault_has_its_turn() -> None:
    assert {"none", "threads", "forked", *chain(*TOGETHER)} == set(FAULTS)


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize(
    "faults",
    [*TOGETHER[:-1], pytest.param(TOGETHER[-1], marks=pytest.mark.nightly)],
    ids=" ".join,
)
def test_every_call_ends_as_its_row_says(faults: list[str], fabric: str) -> None:
    assert run("program.py", fabric, *faults) == "survivor fine\n"


@pytest.mark.parametrize(
    ("fabric", "share"),
    [("shm", "2"), *(pytest.param(each, "", marks=pytest.mark.nightly) for each in ("shm", "tcp"))],
)
def test_every_call_in_several_threads_at_once_does_what_it_does_in_turn(
    fabric: str, share: str
) -> None:
    assert run("program.py", fabric, "threads", TEST_SHARE=share) == "survivor fine\n"


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize(
    "fault",
    ["killed", "parent", *(pytest.param(each, marks=pytest.mark.nightly) for each in RARER)],
)
def test_every_call_that_is_made_while_a_fault_happens_ends_as_its_row_says(
    fault: str, fabric: str
) -> None:
    assert run("program.py", fabric, "during", fault) == "survivor fine\n"


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_every_call_in_a_callback_or_a_signal_handler_works_or_is_refused(fabric: str) -> None:
    handlers = ["channel", "box", "signal"]
    assert run("inside_program.py", fabric, *handlers) == "survivor fine\n"


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize("moment", ["threads", "atexit", "finalizer"])
def test_a_process_ends_in_good_order_amid_every_call(
    moment: str, fabric: str, tmp_path: Path
) -> None:
    assert run("ending_program.py", fabric, moment, TMPDIR=str(tmp_path)) == ""


@pytest.mark.parametrize("fabric", ["shm", pytest.param("tcp", marks=pytest.mark.slow)])
def test_every_call_in_a_forked_child_works_or_is_refused(fabric: str) -> None:
    assert run("forked_program.py", fabric) == "parent fine\n"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("program.py tpc killed", "tpc"),
        ("program.py tcp stoped Channel.flush", "stoped"),
        ("program.py tcp killed Segment.raed", "Segment.raed"),
        ("program.py tcp Segment.read", "no word is a fault"),
        ("inside_program.py shm chanel", "chanel"),
        ("ending_program.py shm at_exit", "at_exit"),
        ("forked_program.py sch", "sch"),
        ("arguments_program.py shm Segment.write.strat", "Segment.write.strat"),
        ("exceptions_program.py shm Segment.wirte 12", "Segment.wirte"),
        ("exceptions_program.py shm Event.signal 9999", "9999"),
        ("killed_program.py tcp send", "send"),
        ("killed_program.py tcp sends changse 17", "changse"),
        pytest.param("killed_program.py tcp sends changes 99999", "99999", marks=pytest.mark.slow),
        ("refused_program.py shm thread", "thread"),
        ("refused_program.py shm threads openings.bax", "openings.bax"),
        pytest.param(
            "refused_program.py shm threads openings.box 999", "999", marks=pytest.mark.slow
        ),
    ],
)
def test_a_program_refuses_a_word_that_stands_for_nothing(line: str, word: str) -> None:
    ended = started(*line.split())
    assert (ended.returncode, ended.stdout) == (2, "")
    assert word in ended.stderr.splitlines()[-1]


def test_a_program_that_found_a_problem_fails_and_says_how_to_repeat_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["tests/python/matrix/program.py"])
    problems = Problems()
    problems.add("killed: Segment.read: returns (), not PeerDead", "tcp", "killed", "Segment.read")
    problems.add("stopped: Event.wait: ends (), not returns", "tcp", "stopped", "Event.wait")
    assert problems.end() == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "repeat one: PYTHONPATH=tests/python .venv/bin/python tests/python/matrix/program.py "
        "tcp killed Segment.read"
    ]
    assert Problems().end() == 0
    assert capsys.readouterr().out == "survivor fine\n"


def test_a_call_that_outlasts_its_limit_is_a_problem() -> None:
    made = Made("Segment", "wait", peer(lambda _: None))
    made.outcome, made.over_its_limit = "returns", ALLOWANCE + 1
    problem = made.problem("none", "shm")
    assert problem is not None and "longer than its limit (its own timeout" in problem
    waits = Made("Updates", "__iter__", peer(lambda _: None, none="waits"))
    assert waits.row.limit.seconds(SHORT) == math.inf


def test_a_share_of_the_cases_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = range(100)
    assert drawn(cases, "all") == [*cases]
    monkeypatch.setattr(command_line, "SHARE", "3")
    assert len(drawn(cases, "one")) == 3 and len(drawn(cases, "one", 2)) == 6
    assert drawn(cases, "one") == drawn(cases, "one") != drawn(cases, "another")
    monkeypatch.setattr(command_line, "SHARE", "1/4")
    quarters = {tuple(drawn(cases, f"call {number}")) for number in range(50)}
    assert sorted(case for quarter in quarters for case in quarter) == [*cases]
    monkeypatch.setattr(command_line, "SHARE", "a few")
    with pytest.raises(SystemExit):
        drawn(cases, "one")


def test_a_change_that_four_threads_lose_or_double_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(table_of_calls.WORLD, "timeout", SHORT)
    did = iter([({"versions": 4}, b""), ({"versions": 5}, b"")])

    def done(makes: Callable[[], object]) -> tuple[dict[str, int], bytes]:
        makes()
        return next(did)

    monkeypatch.setattr(at_once, "done", done)
    monkeypatch.setitem(table_of_calls.WORLD, "Segment", None)
    made = Made("Segment", "signal", peer(lambda _: None))
    found = [problem for problem in at_once.in_threads(made, "shm") if problem is not None]
    assert len(found) == 1 and "4 at once did" in found[0]


def test_what_is_not_given_back_is_found() -> None:
    before = held.settled()
    kept = os.memfd_create("kept", 0)
    more = held.more(before, held.settled())
    os.close(kept)
    assert more.startswith("descriptors were ")
    assert held.not_given_back(before) == ""
