"""The plan that a command line of ``farwrite bench grpc`` selects."""

from __future__ import annotations

import argparse

from farwrite_bench.grpc.benchmark import BENCHMARK
from farwrite_bench.grpc.plan import GrpcPlan
from farwrite_bench.grpc.selection import make_plan
from farwrite_bench.harness.command import add_parser


def plan_of(*words: str) -> GrpcPlan:
    """Return the plan that these arguments select."""
    parser = argparse.ArgumentParser()
    add_parser(BENCHMARK, parser.add_subparsers())
    arguments = parser.parse_args(["grpc", *words])
    for option in BENCHMARK.options:
        option.resolve(arguments)
    return make_plan(arguments)
