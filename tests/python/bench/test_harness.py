"""The harness, on a small benchmark of its own and on all that are declared."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farwrite.errors import ResourceExhausted
from farwrite_bench.benchmarks import benchmarks
from farwrite_bench.harness import command, option
from farwrite_bench.harness.benchmark import Benchmark, stage
from farwrite_bench.harness.chart import Bars, BySize
from farwrite_bench.harness.column import Column, Table, ratio, span, spread
from farwrite_bench.harness.command import add_parser
from farwrite_bench.harness.memory import affordable, affordable_pool
from farwrite_bench.options import positive, sizes
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Gain, rows_of
from farwrite_bench.report.theme import colour
from farwrite_bench.sizes import MIB
from farwrite_bench.table import print_markdown, print_text, progress_bar

COLOURS = {"here": "farwrite", "there": "grpc"}
RATE = Bars("Rates", lambda row: f"{row['size']}", "gb_s", "GB/s", rounds="rounds", colours=COLOURS)
ECHO = Benchmark[argparse.Namespace](
    name="assign",
    description="Measure echoes.",
    title="Echoes",
    options=(
        option.size_list((8, 64), (8,), help="bytes"),
        option.chosen("--way", ("here", "there")),
        option.rounds(5, quick=2),
        option.FABRIC,
    ),
    plan=lambda arguments, record: record.notes.append("made") or arguments,
    measure=lambda plan, progress, logs: {
        "rows": [
            {"size": size, "way": way, "gb_s": 2.0, "rounds": [1.0, 3.0], "of": None, "error": None}
            for size in plan.sizes
            for way in plan.way
        ]
    },
    summary=lambda plan: f"sizes {'/'.join(map(str, plan.sizes))}, rounds {plan.rounds}",
    settings=lambda plan: {"sizes": plan.sizes, "rounds": plan.rounds, "fabric": plan.fabric},
    notes=lambda plan: ("gb_s is made up",),
    tables=(
        Table(
            (
                Column("size", "size"),
                Column("way", "way"),
                Column("GB/s", "gb_s", ".1f"),
                span("spread", "rounds", "g"),
                ratio("of", "of", ".2f"),
                spread("spread", "of", ".2f"),
            )
        ),
    ),
    sentences=lambda facts: [f"{len(facts['rows'])} echoes"],
    charts=(RATE, BySize("Rate", "GB/s", "gb_s", RATE, colours=COLOURS)),
    gains=lambda facts: [Gain("echo", row["gb_s"], "silence") for row in rows_of(facts)],
    gain_of="as loud",
    passed=lambda facts: len(facts["rows"]) < 5,
)


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_parser(ECHO, "how loud the echo is", parser.add_subparsers())
    return parser.parse_args(["assign", *words])


def run(*words: str) -> int:
    arguments = parse(*words)
    status: int = arguments.run(arguments)
    return status


def test_a_declaration_makes_a_command_a_table_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, drawing = tmp_path / "new" / "echo.json", tmp_path / "echo.svg"
    assert run("--json", str(file), "--svg", str(drawing)) == 0
    printed = capsys.readouterr()
    assert "sizes 8/64, rounds 5\n" in printed.out
    assert ["8", "here", "2.0", "1", "to", "3", "-", "-"] in [
        line.split() for line in printed.out.splitlines()
    ]
    assert "\n4 echoes\n\ngb_s is made up\n" in printed.out
    assert "farwrite bench: made" in printed.err
    facts = json.loads(file.read_text())
    assert facts["settings"] == {"sizes": [8, 64], "rounds": 5, "fabric": None}
    assert facts["notes"][-2:] == ["made", "gb_s is made up"]
    assert len(facts["rows"]) == 4
    assert facts["finished"]
    assert "Rates" in drawing.read_text() and "bytes of the tensor" in drawing.read_text()


def test_quick_has_its_own_defaults_and_an_option_wins(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--quick") == 0
    assert "sizes 8, rounds 2\n" in capsys.readouterr().out
    assert run("--quick", "--rounds", "7", "--way", "here", "--markdown") == 0
    printed = capsys.readouterr().out
    assert "rounds 7\n" in printed
    assert "| 8 | here | 2.0 |" in printed and "there" not in printed


def test_a_failed_check_of_the_rows_is_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--sizes", "8,16,24") == 1
    assert "6 echoes" in capsys.readouterr().out


def test_help_begins_with_what_it_is_for_and_has_an_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "Measure echoes." in text and "Example: farwrite bench assign --quick" in text
    assert "rounds to measure (default: 5; --quick: 2)" in text


def test_columns_write_what_was_not_measured_as_a_dash() -> None:
    of: Any = {"median": 2.0, "low": 1.0, "high": 4.0}
    table = Table((ratio("of", "of", ".1f"), spread("spread", "of", "g"), Column("n", len, str)))
    rows = [{"of": of}, {"of": None}]
    assert table.cells({"rows": rows}) == [["2.0", "1 to 4", "1"], ["-", "-", "1"]]


def test_columns_write_large_numbers_in_full() -> None:
    table = Table((Column("p99 us", "us", ".4g"), span("spread", "rounds", ".3g")))
    row: Any = {"us": 11660.0, "rounds": [0.5, 3996.0]}
    assert table.cells({"rows": [row]}) == [["11660", "0.5 to 4000"]]


def test_takes_no_more_memory_than_there_is() -> None:
    record = Record("echo", quick=False)
    before = list(record.notes)
    assert affordable(record, "an echo", (8, 64), lambda size: 10 * size, available=640) == (8, 64)
    assert record.notes == before
    assert affordable(record, "an echo", (8, 64), lambda size: 10 * size, available=639) == (8,)
    assert record.notes[-1] == "too little memory is available for 64 B; left out"
    with pytest.raises(ResourceExhausted, match="bench echo: an echo of 8 B needs"):
        affordable(record, "an echo", (8, 64), lambda size: 10 * size, available=79)


def test_a_pool_never_takes_more_memory_than_there_is() -> None:
    record, before = Record("echo", quick=False), []
    before += record.notes
    assert affordable_pool(record, 1024 * MIB, 2.5, available=100 * 1024 * MIB) == 1024 * MIB
    assert record.notes == before
    assert affordable_pool(record, 1024 * MIB, 2.5, available=1024 * MIB) * 2.5 < 1024 * MIB
    assert record.notes[-1].startswith("the available memory allows a pool of 307 MiB instead of")
    assert affordable_pool(record, 1024 * MIB, 2.5, available=0) == 4 * MIB


def test_tables_align_numbers_to_the_right_and_markdown_has_a_rule(
    capsys: pytest.CaptureFixture[str],
) -> None:
    headers, rows = ("op", "us [1]"), [("write", "1"), ("read", "2048")]
    print_text(headers, rows)
    head, _, *shown = capsys.readouterr().out.splitlines()
    assert [head, *shown] == ["op      us [1]", "write        1", "read      2048"]
    print_text(headers, [("read" * 100, "1")])
    assert len(capsys.readouterr().out.splitlines()) == 3, "no line is broken but on a terminal"
    print_markdown(("op", "us"), rows)
    assert capsys.readouterr().out.splitlines() == [
        "| op | us |",
        "| --- | ---: |",
        "| write | 1 |",
        "| read | 2048 |",
    ]


def test_no_progress_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as show:
        show(0.5, "halfway")
    assert capsys.readouterr().err == ""


def test_an_option_may_be_a_list_and_a_run_may_be_of_another_kind() -> None:
    echo = replace(
        ECHO,
        options=(option.Option("--at", "places", kind=str, many=True, shown="all"),),
        more_options=lambda parser: parser.add_argument("--serve", action="store_true"),
        instead=lambda arguments: 7 if arguments.serve else None,
    )
    parser = argparse.ArgumentParser()
    add_parser(echo, "how loud the echo is", parser.add_subparsers())
    arguments = parser.parse_args(["assign", "--at", "here", "--at", "there", "--serve"])
    assert arguments.at == ["here", "there"]
    assert arguments.run(arguments) == 7


def test_without_a_key_the_settings_are_facts_and_an_empty_table_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = Table((Column("nothing", "size"),), rows=lambda _: [])
    echo = replace(ECHO, settings_key="", tables=(empty,))
    parser = argparse.ArgumentParser()
    add_parser(echo, "how loud the echo is", parser.add_subparsers())
    file = tmp_path / "echo.json"
    arguments = parser.parse_args(["assign", "--json", str(file)])
    assert arguments.run(arguments) == 0
    facts = json.loads(file.read_text())
    assert (facts["rounds"], facts["sizes"]) == (5, [8, 64])
    assert "nothing" not in capsys.readouterr().out
    assert echo.filled_tables(facts) == []


def test_without_a_chart_no_picture_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawing = tmp_path / "echo.svg"
    assert command.run(replace(ECHO, charts=(lambda _: [],)), parse("--svg", str(drawing))) == 0
    assert f"no chart shows what was measured; {drawing} is not written" in capsys.readouterr().err
    assert not drawing.exists()


def test_a_chart_draws_the_rows_that_its_declaration_makes() -> None:
    def rows(facts: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**row, "way": "limit", "gb_s": 8.0} for row in facts["rows"]]

    facts = {"rows": [{"size": size, "rounds": [1.0, 3.0]} for size in (8, 64)]}
    chart = BySize("Rate", "GB/s", "gb_s", rows=rows, log_y=False)
    (drawn,), (plain,) = replace(chart, rounds="rounds")(facts), chart(facts)
    strokes = [each.count("stroke-width: 2") for each in (drawn, plain)]
    assert strokes[0] == strokes[1] + 2, "the spread of two sizes"
    assert f"{colour('limit')[1:]})" in drawn
    assert Bars("Rate", lambda row: "all", "gb_s", "GB/s", rows=rows)(facts)[0].count("8 GB/s") > 1


@pytest.mark.parametrize("name", benchmarks())
def test_every_benchmark_has_a_part_of_the_page(name: str) -> None:
    benchmark = benchmarks()[name].benchmark
    assert benchmark.title and benchmark.description
    assert "By default" not in benchmark.description, "which is for its help alone"


def test_the_page_has_what_the_declaration_says(tmp_path: Path) -> None:
    file = tmp_path / "echo.json"
    run("--json", str(file), "--quick")
    facts = json.loads(file.read_text())
    assert len(ECHO.figures(facts)) == 2
    (_, heads, shown) = ECHO.filled_tables(facts)[0]
    assert (list(heads)[:2], len(shown)) == (["size", "way"], 2)
    assert ECHO.key_figures(facts) == [("2.0x", "as loud, echo")]


def test_the_file_of_a_long_run_is_written_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "echo.json"
    seen = []

    def measure(plan: argparse.Namespace, *_: Any) -> Iterator[dict[str, Any]]:
        row = ECHO.measure(plan, lambda *_: None, tmp_path)["rows"][0]
        for count in (1, 2, 3):
            yield {"rows": [row] * count, "settings": {"count": count}}
            seen.append(json.loads(file.read_text()))
        raise ResourceExhausted("no more")

    benchmark = replace(ECHO, measure=measure)
    arguments = parse("--json", str(file))
    with pytest.raises(ResourceExhausted):
        command.run(benchmark, arguments)
    assert [len(facts["rows"]) for facts in seen] == [1, 2, 3]
    assert not any(facts["finished"] for facts in seen)
    assert not json.loads(file.read_text())["finished"]
    assert seen[-1]["settings"] == {"count": 3}, "what was measured goes before the plan's"
    assert "echoes" not in capsys.readouterr().out


def test_the_stages_of_a_run_share_its_progress() -> None:
    shown: list[tuple[float, str]] = []
    inner = stage(lambda share, what="": shown.append((share, what)), 1, 4, "gru")
    inner(0.0)
    stage(inner, 1, 2)(1.0, "step")
    assert shown == [(0.25, "gru"), (0.5, "gru, step")]


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "many"])
def test_a_number_that_measures_nothing_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number above 0"):
        positive(text)
    assert positive("0.5") == 0.5


@pytest.mark.parametrize("text", ["", ",", ",,"])
def test_a_list_without_a_size_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no size; use one or more"):
        sizes(text)
    assert sizes("4K,,1M,4K") == (4096, 1 << 20)
