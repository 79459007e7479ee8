"""The subcommand ``farwrite demo training``: its options, its table and its files."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.errors import FailedPrecondition
from farwrite.info import limits
from farwrite.units import format_size
from farwrite_demo.chart import Row, draw
from farwrite_demo.child import Child
from farwrite_demo.options import count, load, warn_if_busy
from farwrite_demo.progress import Progress
from farwrite_demo.training.cluster import FARWRITE, GRPC, THREADS, Facts, coordinate
from farwrite_demo.training.network import BATCH, DATASET, LARGE, SMALL, WORKERS, Job

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

NAMES = {GRPC: "gRPC (stock)", FARWRITE: "Farwrite"}
MODELS = {model.name: model for model in (LARGE, SMALL)}
JOBS = (Job(LARGE, 320, 0.05), Job(SMALL, 800, 0.3))
PROOFS = (
    Job(LARGE, 12, 0.05, warm_up=2, synchronous=True),
    Job(SMALL, 50, 0.3, warm_up=2, synchronous=True),
)
"""Short synchronous runs, whose weights must agree bit for bit."""
SYNCHRONOUS_JOBS = (
    Job(LARGE, 160, 0.1, synchronous=True),
    Job(SMALL, 400, 0.3, synchronous=True),
)
OUTPUT = Path("out/demo")
HEADERS = ("network", "transport", "step, median", "p90", "accuracy", "sockets/step", "server")
EXPECTED = (
    "To expect, from two cores of a virtual machine (AMD EPYC): a step of the large network takes\n"
    "2.7 to 3.0 times as long over gRPC as over Farwrite, and one of the small network 1.5 to 1.9\n"
    "times. The server needs 1.0 to 1.2 times as much memory over Farwrite as over gRPC."
)


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand ``training``."""
    parser = subparsers.add_parser(
        "training",
        help="train over stock gRPC and over Farwrite, and compare",
        description="One parameter server, two workers and a coordinator train two networks on"
        " scikit-learn's digits, first over stock gRPC and then over Farwrite. The command writes"
        " results.json and a chart, steps.svg. Needs TensorFlow and scikit-learn.",
        epilog="Example: farwrite demo training --output demo",
    )
    for name, choices in (("--transport", tuple(NAMES)), ("--model", tuple(MODELS))):
        parser.add_argument(
            name,
            choices=choices,
            action="append",
            help="use only this one; may be given several times (default: all)",
        )
    parser.add_argument(
        "--steps", type=count, metavar="N", help="steps to measure (default: depends on the model)"
    )
    parser.add_argument(
        "--synchronous",
        action="store_true",
        help="make both workers step together, so that the weights repeat bit for bit",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=OUTPUT,
        metavar="DIR",
        help=f"folder for the results (default: {OUTPUT})",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train over every transport, print the table and write the files.

    Returns
    -------
    int
        1 if synchronous runs ended with different weights, else 0.
    """
    require("tensorflow", "sklearn")
    transports = arguments.transport or list(NAMES)
    measured = jobs(SYNCHRONOUS_JOBS if arguments.synchronous else JOBS, arguments)
    proofs = [] if arguments.synchronous else jobs(PROOFS, arguments)
    output: Path = arguments.output
    (output / "logs").mkdir(parents=True, exist_ok=True)
    averages = load()
    # Before any training, so that a plug-in that does not load costs no time.
    if FARWRITE in transports:
        build = [sys.executable, "-m", "farwrite", "tensorflow", "build"]
        if subprocess.run(build, stdout=subprocess.DEVNULL, check=False).returncode != 0:
            raise FailedPrecondition("demo training: there is no plug-in; the reason is above")
    runs = [
        facts
        for transport in transports
        for facts in train(transport, [*measured, *proofs], output / "logs")
    ]
    shown = [facts for facts in runs if arguments.synchronous or not facts["synchronous"]]
    shown.sort(key=lambda run: list(MODELS).index(run["model"]))
    found = results(shown, agreement(runs), averages)
    print("\n".join(["", *table(shown), "", *sentences(found), "", EXPECTED]))
    warn_if_busy(averages)
    (output / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    (output / "steps.svg").write_text(picture(shown), encoding="utf-8")
    print(f"\nwritten: {output / 'results.json'}, {output / 'steps.svg'}")
    return int(any(each["identical"] is False for each in found["synchronous_weights"]))


def require(*modules: str) -> None:
    """Check that `modules` can be imported, without importing them.

    Raises
    ------
    FailedPrecondition
        If a module is missing. The message has the command that installs it.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise FailedPrecondition(
            f"farwrite demo training needs {' and '.join(missing)}, which is not installed; run"
            " pip install 'tensorflow-cpu==2.21.*' scikit-learn"
        )


def jobs(of: Sequence[Job], arguments: argparse.Namespace) -> list[Job]:
    """Return the jobs that the options choose."""
    chosen = [job for job in of if job.model.name in (arguments.model or MODELS)]
    return [replace(job, steps=arguments.steps or job.steps) for job in chosen]


def train(transport: str, jobs: Sequence[Job], logs: Path) -> Iterator[Facts]:
    """Start the processes, yield the figures of `jobs` one after the other, end the processes.

    Raises
    ------
    PeerDead
        If a process fails.
    """
    log = logs / f"{transport}.log"
    log.unlink(missing_ok=True)
    with Child("coordinator", coordinate, transport, jobs, log=log) as coordinator:
        with Progress(f"{NAMES[transport]}: 4 processes") as line:
            coordinator.receive()
            line.result = "ready"
        for job in jobs:
            kind = ", synchronous" if job.synchronous else ""
            with Progress(f"{NAMES[transport]}: {job.model.name}{kind}") as line:
                while isinstance(message := coordinator.receive(), float):
                    line.show(f"{message:.0%}")
                line.result = (
                    f"{message['seconds']:6.1f} s, accuracy {message['test_accuracy']:.1%}"
                )
            yield message


def results(runs: Sequence[Facts], weights: Sequence[Facts], averages: Sequence[float]) -> Facts:
    """Make the JSON object of the measured runs."""
    medians = {(run["model"], run["transport"]): run["step_ms"]["median"] for run in runs}
    peaks = {run["transport"]: run["ps_peak_rss_bytes"] for run in reversed(runs)}
    return {
        "dataset": DATASET,
        "runs": list(runs),
        "speedup": {
            model: round(stock / medians[model, FARWRITE], 3)
            for (model, transport), stock in medians.items()
            if transport == GRPC and (model, FARWRITE) in medians
        },
        # Of the first run of each transport, because a process keeps memory for the second one.
        "ps_peak_rss_ratio": round(peaks[FARWRITE] / peaks[GRPC], 3) if len(peaks) == 2 else None,
        "synchronous_weights": list(weights),
        "settings": {"batch": BATCH, "workers": WORKERS, "parameter_servers": 1, **THREADS},
        "machine": limits(),
        "farwrite": version("farwrite"),
        "tensorflow": _tensorflow_version(),
        "load": list(averages),
    }


def agreement(runs: Sequence[Facts]) -> list[Facts]:
    """Compare the weights of the synchronous runs of each model."""
    found: dict[str, Facts] = {}
    for run in (run for run in runs if run["synchronous"]):
        entry = {"model": run["model"], "steps": run["steps"], "sha256": {}, "identical": None}
        entry = found.setdefault(run["model"], entry)
        entry["sha256"][run["transport"]] = run["weights_sha256"]
        if len(entry["sha256"]) > 1:
            entry["identical"] = len(set(entry["sha256"].values())) == 1
    return list(found.values())


def table(runs: Sequence[Facts]) -> Iterator[str]:
    """Format the runs as lines, with the networks and the columns in words below."""
    rows = [
        (
            run["model"],
            NAMES[run["transport"]],
            f"{run['step_ms']['median']:.1f} ms",
            f"{run['step_ms']['p90']:.1f} ms",
            f"{run['test_accuracy']:.1%}",
            format_size(round(run["socket_bytes_per_step"])),
            format_size(run["ps_peak_rss_bytes"]),
        )
        for run in runs
    ]
    for network, transport, *figures in (HEADERS, *rows):
        yield f"  {network:<9}{transport:<13}" + "".join(f"{text:>14}" for text in figures)
    yield ""
    for model in dict.fromkeys(run["model"] for run in runs):
        size = format_size(4 * MODELS[model].parameters)
        yield f"  {model}: {MODELS[model].what}, {size} of weights"
    yield "  sockets/step: bytes through TCP; server: the parameter server's highest memory"


def sentences(facts: Facts) -> Iterator[str]:
    """Summarize the table in sentences."""
    for model, speedup in facts["speedup"].items():
        yield (
            f"A step of the {model} network takes {speedup:.2f} times as long over gRPC as over"
            " Farwrite."
        )
    if facts["ps_peak_rss_ratio"] is not None:
        yield (
            f"The server's highest memory over Farwrite is {facts['ps_peak_rss_ratio']:.2f} times"
            " that over gRPC."
        )
    for entry in facts["synchronous_weights"]:
        if entry["identical"] is not None:
            verdict = "the same bit for bit" if entry["identical"] else "NOT THE SAME"
            yield (
                f"After {entry['steps']} synchronous steps over each transport, the weights of the"
                f" {entry['model']} network are {verdict}."
            )


def picture(runs: Sequence[Facts]) -> str:
    """Draw the time of a step, one bar for each run."""
    return draw(
        "Time of a training step",
        "Median (strong) and 90th percentile (pale); a scale for each network. Less is better.",
        [
            Row(
                f"{run['model']}, {NAMES[run['transport']]}",
                run["transport"] == FARWRITE,
                run["step_ms"]["median"] / 1e3,
                run["step_ms"]["p90"] / 1e3,
                run["model"],
            )
            for run in runs
        ],
    )


def _tensorflow_version() -> str:
    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            return f"{version(name)} ({name})"
        except PackageNotFoundError:
            continue
    return "unknown"
