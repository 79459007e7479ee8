"""The subcommand of a benchmark: from its options to its table and its file."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from farwrite_bench.cluster.plugin import measuring
from farwrite_bench.cluster.transport import require
from farwrite_bench.figures import write, write_json
from farwrite_bench.harness.benchmark import Benchmark
from farwrite_bench.options import add_shared
from farwrite_bench.record import Record
from farwrite_bench.report.chart import beside, standalone
from farwrite_bench.report.parts import failed_rows
from farwrite_bench.table import print_markdown, print_text

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

Plan = TypeVar("Plan")


def add_parser(benchmark: Benchmark[Any], question: str, kinds: Subparsers) -> None:
    """Add the subcommand; its `question` is a line of the list of benchmarks."""
    parser = kinds.add_parser(
        benchmark.name,
        help=question,
        description=f"{benchmark.description} {benchmark.more_help}".rstrip(),
        epilog=f"Example: {benchmark.example or f'farwrite bench {benchmark.name} --quick'}",
    )
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for option in benchmark.options:
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        option.add_to(groups[option.group])
    add_shared(parser, "--quick", "--json", "--svg", "--report", "--markdown")
    benchmark.more_options(parser)
    parser.set_defaults(run=functools.partial(run, benchmark))


def run(benchmark: Benchmark[Plan], arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the files; return 1 if a row failed or a check of them."""
    if benchmark.needs:
        require(f"farwrite bench {benchmark.name}", *benchmark.needs)
    for option in benchmark.options:
        option.resolve(arguments)
    if (status := benchmark.instead(arguments)) is not None:
        return status
    record = Record(benchmark.name, quick=arguments.quick)
    plan = benchmark.plan(arguments, record)
    record.announce(benchmark.seconds(plan))
    with measuring(*benchmark.libraries(plan)) as (bar, logs):
        found = benchmark.measure(plan, bar, logs)
        for measured in [found] if isinstance(found, dict) else found:
            settings, notes = benchmark.settings(plan), benchmark.notes(plan)
            key = benchmark.settings_key
            known = {key: settings} if key and settings else settings
            for row in measured.get("rows", ()):
                row.setdefault("error", None)
            facts = record.facts(notes, **{**known, **measured, "finished": False})
            if not isinstance(found, dict):
                write_json(arguments.json, facts)
    facts["finished"] = True
    write_json(arguments.json, facts)
    print(f"{record.conditions()}; {benchmark.summary(plan)}")
    for title, heads, cells in benchmark.filled_tables(facts):
        print(f"\n{title}:" if title else "")
        (print_markdown if arguments.markdown else print_text)(heads, cells)
    for line in (*benchmark.all_sentences(facts), *notes):
        print(f"\n{line}")
    if arguments.svg is not None:
        if drawn := benchmark.figures(facts):
            write(arguments.svg, standalone(beside(benchmark.title, drawn)))
        else:
            print(
                f"farwrite bench: no chart shows what was measured; {arguments.svg} is not written",
                file=sys.stderr,
            )
    if arguments.report is not None:
        from farwrite_bench.report.files import run_of
        from farwrite_bench.report.results_page import results_page

        write(arguments.report, results_page([run_of(benchmark.name, facts)], papers=False))
    if failed := [name for name, _ in benchmark.failures(facts)]:
        print(
            f"farwrite bench {benchmark.name}: {len(failed)} of {len(facts['rows'])} rows failed:"
            f" {'; '.join(failed)}; the output has the reasons, and the other rows",
            file=sys.stderr,
        )
    return 0 if not failed_rows(facts.get("rows", ())) and benchmark.passed(facts) else 1
