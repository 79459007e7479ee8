"""``farwrite report``: one page of all results in a folder."""

from __future__ import annotations

import itertools
import json
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path

import pytest
from result_facts import facts
from result_files import RESULTS, tensor, two_hosts, write_results
from training_results import sizes, train

from farwrite import cli
from farwrite_bench.benchmarks import benchmarks
from farwrite_bench.record import Record
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, lines, standalone
from farwrite_bench.report.files import Run, read_file, read_folder
from farwrite_bench.report.frame import WIDTH, Look, size_of
from farwrite_bench.report.parts import HELPS_FROM
from farwrite_bench.report.results_page import picture, results_page
from farwrite_experiments.papers.ours import MEASURES, measured
from farwrite_experiments.papers.page import PAPERS
from self_contained import check_page

SVG = "{http://www.w3.org/2000/svg}"


def report(*words: str | Path) -> int:
    """Run the command."""
    return cli.main(["report", *map(str, words)])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A result of each benchmark, read once: to draw them takes a few seconds."""
    folder = tmp_path_factory.mktemp("results")
    write_results(folder)
    read, left_out = read_folder(folder)
    assert not left_out
    return {run.benchmark: run for run in read}


def page_of(folder: Path) -> str:
    """Make the page of a folder."""
    return results_page(*read_folder(folder))


def unwrapped(html: str) -> str:
    """Join the lines of each chart's title."""
    return re.sub(r"</text>\s*</g>\s*<g>\s*<text [^>]*font-weight: 700[^>]*>", " ", html)


def texts(drawn: str) -> list[tuple[float, float, str]]:
    """Return where each text of a chart begins, and the text."""
    found = []
    for each in ElementTree.fromstring(drawn).iter(f"{SVG}text"):
        place = re.search(r"translate\(([-\d.]+)[ ,]([-\d.]+)\)", each.get("transform", ""))
        x, y = place.groups() if place else (each.get("x", -1), each.get("y", -1))
        text = "".join(each.itertext()).strip()
        width = 0.58 * 12 * len(text)
        style = each.get("style", "")
        shift = width / 2 if "middle" in style else width if "end" in style else 0
        found.append((float(x) - shift, float(y), text))
    return found


def check_figure(drawn: str) -> None:
    """Check that a chart has marks with values, a label, and no text outside of its frame."""
    root = ElementTree.fromstring(drawn)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert not re.search(r"(?i)\b(nan|inf)\b", drawn)
    assert "id=" not in re.sub(r'<(clipPath|path) id="', "", drawn), "pages have several charts"
    width, height = size_of(drawn)
    assert width == WIDTH
    assert root.find(f".//{SVG}g/{SVG}title") is not None, "no value can be read"
    for x, y, text in texts(drawn):
        assert text
        assert x >= 0, text
        assert x + 0.5 * 12 * len(text) <= width, text
        assert 0 <= y <= height, text


@pytest.mark.parametrize("name", RESULTS)
def test_every_figure_of_a_benchmark_has_marks(runs: dict[str, Run], name: str) -> None:
    assert runs[name].figures
    for drawn in runs[name].figures:
        check_figure(drawn)


@pytest.mark.parametrize("name", RESULTS)
def test_every_row_of_a_benchmark_is_in_a_table(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    if "rows" in run.facts:
        # ablations has two tables of other counts besides
        shown = sum(len(rows) for _, _, rows in run.tables[: None if name != "ablations" else 1])
        assert shown == len(run.facts["rows"])
    for _, headers, rows in run.tables:
        assert rows
        assert {len(row) for row in rows} == {len(headers)}


def test_the_fixtures_cover_every_benchmark() -> None:
    assert [*RESULTS] == sorted(RESULTS, key=[*benchmarks()].index)
    assert RESULTS.keys() == benchmarks().keys()


def test_the_fixtures_hold_what_every_benchmark_writes() -> None:
    written = Record("sizes", quick=False).facts()
    assert facts("sizes").keys() == written.keys()
    assert (written["quick"], Record("sizes", quick=True).facts()["quick"]) == (False, True)


def test_the_page_is_one_file_with_everything_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(tmp_path)
    assert report(tmp_path) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    check_page(html, "svg", "table", "details", "h2")
    without_namespace = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?://|url\((?!#)|@import|<link|<img", without_namespace)
    headings = [unescape(each) for each in re.findall(r"<h2>(.*?)</h2>", html)]
    assert headings == [
        *(each.benchmark.title for each in benchmarks().values()),
        "What the papers measured",
        "Where Farwrite does not help",
        "All rows",
        "How it was run",
    ]
    assert html.index('class="cards"') < html.index("<h2>") < html.index("<details>")
    for name in RESULTS:
        assert f"<td>{name}.json</td>" in html
    assert "A &lt;processor&gt; &amp; more" in html
    assert "2026-01-02 03:04" in html
    assert "0.12, 0.3, 0.4" in html
    assert "a note with &lt;angles&gt;" in html


def test_the_page_can_be_written_elsewhere_with_the_main_figure(tmp_path: Path) -> None:
    write_results(tmp_path, "train", "p2p")
    page, drawn = tmp_path / "out" / "page.html", tmp_path / "out" / "main.svg"
    assert report(tmp_path, "--output", page, "--svg", drawn) == 0
    assert page.read_text().startswith("<!doctype html>")
    root = ElementTree.parse(drawn).getroot()
    assert len(root.findall(f".//{SVG}svg")) == 2, "of communication and of throughput"
    assert "prefers-color-scheme: dark" in drawn.read_text()
    assert not (tmp_path / "report.html").exists()


def test_without_training_the_main_figure_is_of_the_first_benchmark(tmp_path: Path) -> None:
    write_results(tmp_path, "tensor", "memory")
    drawn = picture(read_folder(tmp_path)[0])
    assert drawn is not None
    assert benchmarks()["tensor"].benchmark.title in drawn


def test_files_that_cannot_be_shown_are_named_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(tmp_path, "tensor")
    broken = {
        "cut.json": json.dumps(tensor())[:-200],
        "list.json": "[1]",
        "results.json": '{"runs": []}',
        "other.json": json.dumps(facts("quantum", rows=[])),
        "kinds.json": json.dumps({**tensor(), "benchmark": ["tensor"]}),
        "empty.json": json.dumps(facts("tensor", rows=[])),
        "nan.json": json.dumps(facts("sizes", rows=[{"model": float("nan")}])),
        "rows.json": json.dumps(facts("train", rows=[{"model": "vgg16"}])),
        "types.json": json.dumps({**sizes(), "rows": 3}),
        "machine.json": json.dumps({**sizes(), "machine": None}),
    }
    for name, text in broken.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    os.mkfifo(tmp_path / "pipe.json")
    assert report(tmp_path) == 0
    reported = capsys.readouterr().err
    html = unescape((tmp_path / "report.html").read_text())
    for name, why in {
        "cut.json": "it is not JSON",
        "list.json": "no key 'benchmark'",
        "results.json": "no key 'benchmark'",
        "other.json": "the benchmark 'quantum' is unknown",
        "kinds.json": "is unknown",
        "empty.json": "it has no rows",
        "nan.json": "it has the number NaN",
        "rows.json": "it has no key 'samples_s'",
        "types.json": "it is not what bench sizes writes",
        "machine.json": "machine is no dict",
        "bytes.json": "it is not a text in UTF-8",
        "deep.json": "it is nested deeper",
        "pipe.json": "it is no regular file",
    }.items():
        assert re.search(rf"report: left out \S*/{name}: .*{why}", reported), name
        assert re.search(rf"Left out: {name}: .*{why}", html), name


@pytest.mark.parametrize("option", ["--output", "--svg"])
def test_a_page_never_replaces_a_file_of_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    write_results(tmp_path, "tensor")
    file = tmp_path / "tensor.json"
    before = file.read_text()
    assert report(tmp_path, option, file) == 2
    assert "would replace a file of results; name another file" in capsys.readouterr().err
    assert file.read_text() == before


def test_a_folder_without_results_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(tmp_path) != 0
    assert "has no JSON file; run a benchmark first" in capsys.readouterr().err
    (tmp_path / "broken.json").write_text("{")
    assert report(tmp_path) != 0
    assert "is a whole result of farwrite bench" in capsys.readouterr().err
    assert report(tmp_path / "nowhere") != 0
    assert "nowhere is not a folder" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_a_figure_is_needed_for_a_picture(tmp_path: Path) -> None:
    write_results(tmp_path, "train")
    path = tmp_path / "train.json"
    # One process alone: nothing gains, but its throughput is drawn.
    alone = train()
    alone["rows"] = [row for row in alone["rows"] if row["transport"] == "local"]
    path.write_text(json.dumps(alone))
    assert picture(read_folder(tmp_path)[0]) is not None
    for row in alone["rows"]:
        row["samples_s"] = None
    path.write_text(json.dumps(alone))
    assert picture(read_folder(tmp_path)[0]) is None
    assert report(tmp_path, "--svg", tmp_path / "main.svg") != 0


def test_two_files_of_one_benchmark_stand_apart(tmp_path: Path) -> None:
    write_results(tmp_path, "p2p")
    (tmp_path / "hosts.json").write_text(json.dumps(two_hosts()))
    html = page_of(tmp_path)
    assert html.count(f"<h2>{benchmarks()['p2p'].benchmark.title}</h2>") == 1
    assert "<h3>p2p: p2p.json</h3>" in html
    assert "<h3>p2p: hosts.json</h3>" in html
    assert "Rate between two hosts" in html


def test_different_machines_are_pointed_out(tmp_path: Path) -> None:
    write_results(tmp_path, "tensor")
    other = sizes()
    other["machine"]["cpu"] = "another"
    (tmp_path / "sizes.json").write_text(json.dumps(other))
    assert "different machines" in page_of(tmp_path)


def test_short_runs_and_busy_machines_are_pointed_out(tmp_path: Path) -> None:
    write_results(tmp_path, "tensor")
    html = page_of(tmp_path)
    assert "Short runs" not in html
    assert "not idle" not in html
    short, busy = sizes(), tensor()
    assert not short["quick"]
    short["quick"] = True
    busy["load"] = [3.5, 2.0, 1.0]
    (tmp_path / "sizes.json").write_text(json.dumps(short))
    (tmp_path / "tensor.json").write_text(json.dumps(busy))
    html = page_of(tmp_path)
    assert "and not how fast it is: sizes.json." in html
    assert "less certain: tensor.json (load of up to 3.5)." in html


def test_rows_that_gain_nothing_are_listed(runs: dict[str, Run]) -> None:
    html = unescape(results_page([*runs.values()], []))
    section = html[html.index("Where Farwrite does not help</h2>") :]
    gains = [gain for run in runs.values() for gain in run.gains]
    assert {gain.times < HELPS_FROM for gain in gains} == {True, False}
    for gain in gains:
        assert (f'<td class="long">{gain.case}</td>' in section) == (gain.times < HELPS_FROM)
    assert "training Inception-v3, batch 64, shm" in section
    assert "computation is" in section
    assert "tensor: slice, 4 KiB" in section


def test_a_folder_whose_rows_all_gain_lists_none(tmp_path: Path) -> None:
    write_results(tmp_path, "collective", "assign")
    html = page_of(tmp_path)
    assert "Every one of the 3 compared cases gains." in html
    assert "Where Farwrite does not help" in html


def test_networks_that_are_run_in_several_ways_have_a_chart_each(tmp_path: Path) -> None:
    both = train(["vgg16"])
    real = train(["vgg16"], [1, 8])
    for row in real["rows"]:
        row.update(mode="model", compute="real", sync=False)
    both["rows"] += real["rows"]
    (tmp_path / "train.json").write_text(json.dumps(both))
    html = page_of(tmp_path)
    for fabric in ("shm", "tcp"):
        assert f">VGG-16, data, emulated, synchronous, over {fabric}<" in unwrapped(html)
        assert f">VGG-16, model, real, asynchronous, over {fabric}<" in unwrapped(html)


@pytest.mark.parametrize("bound", [9.0, None])
def test_exposed_time_that_reaches_zero_shows_what_is_certain(
    tmp_path: Path, bound: float | None
) -> None:
    hidden = train(["gru"], [32])
    at_least = {"median": bound, "low": bound, "high": None, "at_least": bound}
    for row in hidden["rows"]:
        if row["transport"] == "farwrite":
            row.update(comm_ms=-0.5, comm_ms_ci=[-1.0, 0.2], of_rpc=None)
            row.update(of_grpc=None if bound is None else at_least)
    path = tmp_path / "train.json"
    path.write_text(json.dumps(hidden))
    figures = list(read_file(path).figures)
    for drawn in figures:
        check_figure(drawn)
    exposed = [drawn for drawn in figures if "Exposed communication" in drawn]
    assert bool(exposed) == (bound is not None)
    assert all("at least 9.0x" in drawn for drawn in exposed)


@pytest.mark.parametrize(
    ("paper", "figures"),
    [
        (
            0,
            "1.7 to 61; 1.3 to 14; 1.2 to 1.8; 117 to 145; 169; 151; 118; 69 %; 65 %; 25 times;"
            " flat; 21 %; 178.5 ms, 135.2; 157.0 ms, 101.9; 690.1 ms, 610.4; 172.5 ms, 171.9;"
            " 84.4 ms, 68.1; 62.3 ms, 52.6; 220 min to 66; 2.6 times; 185 min to 100",
        ),
        (
            1,
            "2.7 times; 2.8 times; 2.5 times; 56 %; 78 %; 3.4 times; 3.6 times; 4.1 times; 60 %;"
            " 2.68; 15 %; 597 beside 517; 89 %; 124 beside 65; 144 %; 3 times",
        ),
        (
            2,
            "2.5 to 4.5 times; 495.0, 246.5, 146.9, 12.0; 1265.2, 631.6, 389.0, 377.1;"
            " 263.3, 132.4, 92.1, 70.6; 691.4, 371.3, 395.2, 317.7",
        ),
        (3, "7 times; 5.2 times; 4.8 times; 1.8 times; 0 ms; 45 ms (MPI: 323 ms)"),
        (4, "2.43 times; 1.21 times; 13.8 times; 2.7 %; 82.6 %; 0; 20 to 30 GB/s; 2 to 4 GB/s"),
    ],
)
def test_the_papers_figures_are_complete(tmp_path: Path, paper: int, figures: str) -> None:
    values = " | ".join(each.value for each in PAPERS[paper].results)
    for figure in figures.split(";"):
        assert figure.strip() in values
    write_results(tmp_path, "memory")
    html = page_of(tmp_path)
    assert escape(PAPERS[paper].title) in html
    for each in PAPERS[paper].results:
        assert escape(each.value) in html


def test_a_papers_figure_has_its_measure_or_the_reason_for_none() -> None:
    wanted = [each.ours for paper in PAPERS for each in paper.results]
    assert {each[0] for each in wanted if not isinstance(each, str)} == MEASURES.keys()
    assert {each for each in wanted if isinstance(each, str)} == {
        "not measured: needs GPUs",
        "not measured: needs GPUs and a cluster",
    }


def test_every_measure_is_found_in_the_results_and_none_without_them(runs: dict[str, Run]) -> None:
    named = [each.ours for paper in PAPERS for each in paper.results if each.ours[0] in MEASURES]
    missing = [
        each for each in named if measured(each, [*runs.values()]).startswith("not measured")
    ]
    assert missing == [["tensor", "rpc-over-fabric"]], "no transport of bench tensor"
    for each in named:
        assert measured(each, []).startswith("not measured here: farwrite bench ")


def test_papers_and_this_machine_never_share_an_axis(runs: dict[str, Run]) -> None:
    html = results_page([*runs.values()], [])
    assert "<svg" not in html[html.index("What the papers measured</h2>") :]


def test_names_at_the_ends_of_lines_and_a_long_title_are_broken() -> None:
    series = [Series("grpc", f"a transport with a name, {n}", [(1, 1), (2, n)]) for n in range(9)]
    drawn = lines(Look("words " * 30, "x", "y"), series)
    check_figure(drawn)
    found = texts(drawn)
    assert sum("words" in text for _, _, text in found) > 1
    names = sorted(y for _, y, text in found if "a transport" in text or "name," in text)
    assert len(names) == 18
    assert all(below - above > 8 for above, below in itertools.pairwise(names))


@pytest.mark.parametrize("powers", [range(40), [3, 12, 16, 20, 24, 26, 28], [5]])
def test_labels_of_an_axis_do_not_touch(powers: Sequence[int]) -> None:
    ticks = [2.0**power for power in powers]
    look = Look("many", "x", "y", log_x=True, ticks_x=ticks, write_x=lambda x: f"{x:.0f}")
    drawn = lines(look, [Series("grpc", "g", [(x, 1) for x in ticks])])
    shown = sorted((x, len(text)) for x, y, text in texts(drawn) if text.isdigit() and y > 200)
    assert min(2, len(ticks)) <= len(shown) < 20
    for (left, one), (right, _) in itertools.pairwise(shown):
        assert right - left > 6 * one


def test_a_baseline_is_drawn_in_each_group_and_a_spread_on_each_bar() -> None:
    groups = [Group(name, [Bar("farwrite", "f", 2.0, "2x", (1.5, 2.5))]) for name in "ab"]
    plain = bars("gains", groups, "a note")
    drawn = bars("gains", groups, "a note", baseline=1.0)
    check_figure(drawn)
    assert drawn.count("stroke-dasharray") == plain.count("stroke-dasharray") + 2
    assert "a note" in drawn


def test_colours_follow_the_mode_of_the_reader() -> None:
    drawn = lines(Look("one", "x"), [Series("grpc", "g", [(1, 1), (2, 2)])])
    assert not re.findall(r"#[0-9a-f]{6}", drawn)
    for name in re.findall(r"var\((--[\w-]+)\)", drawn):
        assert standalone(drawn).count(f"{name}:") == 2, "in light and in dark"
