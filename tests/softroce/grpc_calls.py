"""Calls of gRPC between two guests, with the bytes of their connections over verbs.

    grpc_calls.py serve ADDRESS
    grpc_calls.py ask ADDRESS PEER      prints rows of `farwrite bench grpc latency`; JSON in /out

Runs the benchmark's own program, unmodified gRPC under the preloaded component, in each guest. That
program marks every payload and checks the marks of what comes. The counters of both guests must
say that the connection was upgraded and did not stay on TCP, and that a large payload was read by
RDMA. The times are those of emulated processors and of RDMA in software: they say nothing about
hardware, or about TCP, and no threshold is asserted.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import farwrite
from farwrite_bench.grpc.benchmark import BENCHMARK
from farwrite_bench.grpc.payload import PLAIN, Payload
from farwrite_bench.grpc.plan import LATENCY, NON_SERIALIZED, Case
from farwrite_bench.grpc.process import QUIET, STATS, Counters, read_counters
from farwrite_bench.grpc.transport import FABRICS, OVER_VERBS, TRANSPORTS
from farwrite_bench.grpc.turn import case_row, figures
from farwrite_bench.program import Program
from farwrite_bench.report.parts import Row
from farwrite_bench.table import print_text

Json = dict[str, Any]

PORT = 7476
PROGRAM = Path("build/verbs/grpc_payloads").read_text().strip()
COMPONENT = Path(farwrite.__file__).parent / "libfarwrite_grpc.so"
SIZES = (1 << 10, 1 << 20)
"""One goes in messages, the other is read from where the sender has it."""
WARM_UP, SECONDS = 0.2, 1.0
WAIT = 60.0
OUT = Path("/out")


def case_of(size: int) -> Case:
    """Return the benchmark's case of a payload of `size` bytes, which comes back."""
    return Case(LATENCY, NON_SERIALIZED, Payload(PLAIN, (size,)), servers=1, workers=1, echo=True)


def start(role: str, size: int, address: str, listen: str = "") -> Program:
    """Start the program as `farwrite run --grpc --require` does, without another Python."""
    arguments = dict(TRANSPORTS[OVER_VERBS].arguments)
    options = {"buffers": [size], "listen": listen, "arguments": arguments}
    variables = {
        **QUIET,
        "LD_PRELOAD": str(COMPONENT),
        "FARWRITE_GRPC_PRELOADED": "1",
        "FARWRITE_GRPC_REQUIRE": "1",
        "FARWRITE_GRPC_LISTEN": f"{address}:0",
        # The component reads a token from a file alone, and the wire has these two guests.
        "FARWRITE_GRPC_ANY_PEER": "1",
        FABRICS: "verbs",
        STATS: str(OUT / f"grpc_{role}_{size}.stats"),
        "no_grpc_proxy": "*",
    }
    log = OUT / f"grpc_{role}_{size}.log"
    command = [PROGRAM, json.dumps(options)]
    return Program(
        "bench grpc", f"{role} of {size} bytes", command, variables, log=log, own_group=True
    )


def end(program: Program, role: str, size: int, pid: int) -> tuple[Json, Counters]:
    """End the program; return its answer and its counters, which must show the upgrade."""
    answer = program.ask("end")
    program.wait()
    return answer, read_counters(OUT / f"grpc_{role}_{size}.stats", pid, program.name)


def wait_for(file: Path) -> Json:
    """Wait for what the other guest writes."""
    give_up = time.monotonic() + WAIT
    while not file.exists():
        assert time.monotonic() < give_up, f"{file} did not come"
        time.sleep(0.05)
    found: Json = json.loads(file.read_text())
    return found


def write(file: Path, content: Json) -> None:
    """Write a file that the other guest sees whole or not."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(content))
    part.rename(file)


def serve(address: str) -> None:
    """Serve each size in turn, until the asking guest has ended."""
    for number, size in enumerate(SIZES):
        with start("server", size, address, f"{address}:{PORT + number}") as server:
            greeting = server.answer()
            server.ask("start")
            write(OUT / f"grpc_{size}_serves.json", greeting)
            wait_for(OUT / f"grpc_{size}_asked.json")
            answer, counters = end(server, "server", size, greeting["pid"])
        write(OUT / f"grpc_{size}_served.json", {"answer": answer, "counters": asdict(counters)})


def ask(address: str, peer: str) -> None:
    """Measure each size, and print the rows."""
    rows: list[Row] = []
    for number, size in enumerate(SIZES):
        case = case_of(size)
        with start("worker", size, address) as worker:
            greeting = worker.answer()
            wait_for(OUT / f"grpc_{size}_serves.json")
            worker.ask("connect", f"{peer}:{PORT + number}")
            worker.ask("start")
            measured = worker.ask("measure", WARM_UP, SECONDS)
            answer, counters = end(worker, "worker", size, greeting["pid"])
        write(OUT / f"grpc_{size}_asked.json", {})
        served = wait_for(OUT / f"grpc_{size}_served.json")
        both = (counters, Counters(**served["counters"]))
        turn = figures(case, [measured], {"worker": [answer], "server": [served["answer"]]})
        row = case_row(case, TRANSPORTS[OVER_VERBS], {OVER_VERBS: [turn]})
        # Whatever answered the calls, it is the bytes over Farwrite that were all of them.
        least = measured["calls"] * size
        for side in both:
            assert side.sent_bytes >= least, (side, measured)
            assert size < 1 << 16 or side.read_bytes >= least, (side, measured)
        rows.append({**row, "counters": [asdict(side) for side in both]})
    for table in BENCHMARK.tables:
        if cells := table.cells({"rows": rows}):
            print(f"{table.title}; emulated, so that no time counts")
            print_text(table.heads(), cells)
    (OUT / "grpc_calls.json").write_text(json.dumps({"rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("FARWRITE_LOG", "error")
    if len(sys.argv) == 3 and sys.argv[1] == "serve":
        serve(sys.argv[2])
    elif len(sys.argv) == 4 and sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)
