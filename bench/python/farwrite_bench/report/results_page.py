"""The page of all results, and its main picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite.run import html_page as page
from farwrite_bench.benchmarks import benchmarks, suites
from farwrite_bench.machine import BUSY_LOAD
from farwrite_bench.report.chart import beside, standalone
from farwrite_bench.report.files import LeftOut, Run
from farwrite_bench.report.page import cards, chart_page, charts, subheading
from farwrite_bench.report.parts import HELPS_FROM, Card, Facts, Gain
from farwrite_bench.table import times

TITLE = "Farwrite, measured"
SENTENCE = (
    "Farwrite moves tensors, arrays and gRPC's bytes between processes with at most one copy; this"
    " page shows what that gained on one machine, and where it gained nothing."
)
ANSWERS = (
    "train", "assign", "collective", "grpc", "peers", "box", "p2p", "tensor", "step", "feed", "gpu",
)  # fmt: skip
"""The benchmarks whose first figure may open the page, in this order."""
MOST_ANSWERS = 5
RUN_HEADERS = ("file", "benchmark", "date", "load before", "settings")
GAIN_HEADERS = ("case", "gain", "compared with", "what the rows show")


def results_page(
    runs: Sequence[Run], left_out: Sequence[LeftOut] = (), *, papers: bool = True
) -> str:
    """Make the page; without `papers` it has only what single benchmarks say."""
    return chart_page(TITLE, list(_parts(runs, left_out, papers)))


def picture(runs: Sequence[Run]) -> str | None:
    """Draw the main figure as one SVG file: the first charts of the first run with any."""
    for run in runs:
        if run.figures:
            title = benchmarks()[run.benchmark].benchmark.title
            return standalone(beside(title, run.figures[:2]))
    return None


def _parts(runs: Sequence[Run], left_out: Sequence[LeftOut], papers: bool) -> Iterator[str]:
    yield page.paragraph(SENTENCE)
    if answers := list(_answers(runs)):
        yield cards(answers)
    yield from (page.paragraph(text, quiet=True) for text in _machines(runs))
    yield from (page.paragraph(text) for text in _doubts(runs))
    for each in left_out:
        yield page.paragraph(f"Left out: {each.file}: {each.why}.")
    for name, entry in benchmarks().items():
        of_it = [run for run in runs if run.benchmark == name and run.figures]
        if of_it:
            yield page.heading(entry.benchmark.title)
            yield page.paragraph(entry.benchmark.description, quiet=True)
        for run in of_it:
            if len(of_it) > 1:
                yield subheading(_name(run))
            if found := _telling(run):
                yield cards(found)
            yield charts(run.figures)
    for suite in suites() if papers else ():
        yield from suite.page_parts(runs)
    yield page.heading("Where Farwrite does not help")
    yield from _no_help([gain for run in runs for gain in run.gains])
    yield page.heading("All rows")
    for run in runs:
        yield page.folded(_name(run), "".join(_details(run)))
    yield page.heading("How it was run")
    table = page.table(RUN_HEADERS, [_run_cells(run) for run in runs], long=[4])
    yield page.folded("Files, dates, loads and settings", table)


def _answers(runs: Sequence[Run]) -> Iterator[Card]:
    """Yield the first figure of the first benchmarks of ANSWERS that have one."""
    found = 0
    for name in ANSWERS:
        # Of "train.json" and "train-tcp.json" the plain one.
        of_it = sorted(
            (run for run in runs if run.benchmark == name), key=lambda run: len(run.file)
        )
        first = next((card for run in of_it for card in _telling(run)), None)
        if first is not None and found < MOST_ANSWERS:
            found += 1
            yield first


def _telling(run: Run) -> list[Card]:
    return [card for card in run.cards if card[0] != "0"]


def _name(run: Run) -> str:
    # A run that was not read from a file has its benchmark's name there.
    return run.benchmark if run.file == run.benchmark else f"{run.benchmark}: {run.file}"


def _machines(runs: Sequence[Run]) -> Iterator[str]:
    lines = dict.fromkeys(_machine(run.facts) for run in runs)
    if len(lines) > 1:
        yield "The files are of different machines or versions. Compare only figures of one file."
    yield from lines


def _machine(facts: Facts) -> str:
    machine = facts["machine"]
    memory = machine.get("memory_bytes")
    return ", ".join(
        [
            str(machine.get("cpu", "unknown processor")),
            f"{machine.get('cpus', '?')} CPUs",
            *([f"{memory / 1e9:.0f} GB of memory"] if memory else []),
            f"Linux {machine.get('kernel', '?')}",
            f"Python {machine.get('python', '?')}",
            f"Farwrite {machine.get('farwrite', '?')}",
            f"copy kernel {machine.get('copy_kernel', '?')}",
        ]
    )


def _run_cells(run: Run) -> list[str]:
    settings = "; ".join(f"{name}: {_plain(value)}" for name, value in run.settings.items())
    load = ", ".join(str(each) for each in run.facts["load"])
    return [run.file, run.benchmark, run.date[:16].replace("T", " "), load, settings or "-"]


def _doubts(runs: Sequence[Run]) -> Iterator[str]:
    short = [run.file for run in runs if run.facts.get("quick")]
    if short:
        yield (
            "Short runs, which show that a benchmark works and not how fast it is:"
            f" {_listed(short, runs)}."
        )
    partial = [run.file for run in runs if not run.facts.get("finished", True)]
    if partial:
        yield f"Interrupted runs, whose files lack rows: {_listed(partial, runs)}."
    busy = [run for run in runs if _was_busy(run)]
    if busy:
        most = max(run.facts["load"][0] for run in busy)
        yield (
            "The machine was not idle before these runs, so they are less certain:"
            f" {_listed([run.file for run in busy], runs)} (load of up to {most})."
        )


def _listed(files: Sequence[str], runs: Sequence[Run]) -> str:
    others = [run.file for run in runs if run.file not in files]
    if len(files) <= len(others):
        return ", ".join(files)
    return f"all but {', '.join(others)}" if others else "all"


def _was_busy(run: Run) -> bool:
    averages = run.facts["load"]
    return bool(averages and averages[0] > BUSY_LOAD)


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _details(run: Run) -> Iterator[str]:
    for title, headers, cells in run.tables:
        yield subheading(title or benchmarks()[run.benchmark].benchmark.title)
        reasons = any(line[-1].startswith(("skipped", "failed")) for line in cells)
        yield page.table(headers, cells, long=[len(headers) - 1] if reasons else [])
    if run.facts["notes"]:
        yield subheading("How it was measured")
        yield page.bullets([str(note) for note in run.facts["notes"]])


def _no_help(gains: Sequence[Gain]) -> Iterator[str]:
    if not gains:
        yield page.paragraph("No file compares Farwrite with something that it replaces.")
        return
    small = sorted((gain for gain in gains if not gain.helps), key=lambda gain: gain.times)
    slower = [gain for gain in small if gain.times < 1 / HELPS_FROM]
    rule = f"A gain below {times(HELPS_FROM)} is not told from noise."
    if not small:
        yield page.paragraph(f"Every one of the {len(gains)} compared cases gains. {rule}")
        return
    worse = f" In {len(slower)} of them it is slower." if slower else ""
    yield page.paragraph(
        f"In {len(small)} of {len(gains)} compared cases Farwrite gains nothing.{worse} {rule}"
    )
    bound = [gain for gain in small if gain.why.startswith("computation")]
    if bound:
        yield page.paragraph(
            "Training that computes for most of a step gains nothing, because there is little"
            f" communication to shorten: {len(bound)} of these cases."
        )
    rows = [[gain.case, times(gain.times), gain.than, gain.why or "-"] for gain in small]
    yield page.table(GAIN_HEADERS, rows, long=[0])
