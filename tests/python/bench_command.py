"""Runs ``farwrite bench`` as a user does."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

from farwrite_bench.harness.benchmark import Benchmark
from farwrite_bench.harness.command import add_parser
from farwrite_bench.record import Record
from farwrite_bench.report.files import read_file
from farwrite_bench.report.parts import Facts
from warm_python import run_python


def bench(*words: str, seconds: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a benchmark to its end, with its output."""
    return run_python("-m", "farwrite", "bench", *words, seconds=seconds)


def result(path: Path, benchmark: str) -> Facts:
    """Return what a benchmark wrote with ``--json``; ``farwrite report`` must show it."""
    run = read_file(path)
    assert run.benchmark == benchmark
    return run.facts


def parsed(benchmark: Benchmark[Any], *words: str) -> argparse.Namespace:
    """Return the options of a benchmark, with their defaults."""
    parser = argparse.ArgumentParser()
    add_parser(benchmark, "what it measures", parser.add_subparsers())
    arguments = parser.parse_args([benchmark.name, *words])
    for option in benchmark.options:
        option.resolve(arguments)
    return arguments


def planned(benchmark: Benchmark[Any], *words: str) -> tuple[Any, Record]:
    """Return the plan that a benchmark makes of its options, and the record with its notes."""
    arguments = parsed(benchmark, *words)
    record = Record(benchmark.name, quick=arguments.quick)
    return benchmark.plan(arguments, record), record
