"""Makes the plan of a benchmark from the words of its command line."""

from __future__ import annotations

from typing import Any

from farwrite.cli import parser
from farwrite_bench.harness.benchmark import Benchmark
from farwrite_bench.record import Record


def options(benchmark: Benchmark[Any], *words: str) -> Any:
    """Parse the words behind ``farwrite``, with the defaults of the benchmark's options."""
    arguments = parser().parse_args(list(words))
    for option in benchmark.options:
        option.resolve(arguments)
    return arguments


def plan_of(benchmark: Benchmark[Any], *words: str) -> Any:
    """Make the plan of a command line."""
    arguments = options(benchmark, *words)
    return benchmark.plan(arguments, Record(benchmark.name, quick=arguments.quick))
