"""Shows the results as a table in the terminal and as ``report.html``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from farwrite.run import html_page as page
from farwrite.units import format_size
from farwrite_bench.demo.training.results import Facts
from farwrite_bench.report.chart import Series, beside, distribution, lines, standalone
from farwrite_bench.report.frame import Look
from farwrite_bench.report.page import cards, chart_page, charts

TITLE = "Training over gRPC and over Farwrite"
NAMES = {"grpc": "gRPC (stock)", "farwrite": "Farwrite"}
HEADERS = (
    "model",
    "transport",
    "steps",
    "step, median",
    "p90",
    "loss",
    "accuracy",
    "sockets/step",
    "tensors/step",
    "copies",
    "RPCs",
    "PS peak",
)
LEGEND = (
    "sockets/step: bytes through TCP. tensors/step: bytes of tensors between tasks. copies: copies"
    " of tensors per step. RPCs: calls that carried a tensor between tasks, in the whole run. PS"
    " peak: the highest memory of the parameter server. -: TensorFlow does not count it."
)
STILL_GRPC = {
    "grpc_recv_tensor_calls": "tensors between tasks (RecvTensor)",
    "grpc_eager_inputs": "arguments of functions, from the coordinator",
    "grpc_feeds": "tensors fed by the coordinator",
    "grpc_fetches": "tensors fetched by the coordinator",
    "pushes_pull": "pushed tensors that their receiver requested again",
}


def rows(facts: Facts) -> list[tuple[str, ...]]:
    """Format the runs as the cells below `HEADERS`, with both transports of a model together."""
    models = list(dict.fromkeys(run["model"] for run in facts["runs"]))
    ordered = sorted(facts["runs"], key=lambda run: models.index(run["model"]))
    return [
        (
            run["model"],
            NAMES[run["transport"]],
            str(run["steps"]),
            f"{run['step_ms']['median']:.1f} ms",
            f"{run['step_ms']['p90']:.1f} ms",
            f"{run['final_loss']:.3f}",
            f"{run['test_accuracy']:.1%}",
            size(run["socket_bytes_per_step"]),
            size(run["tensor_bytes_per_step"]),
            counted(run["copies_per_step"]),
            counted(run["grpc_tensor_calls"]),
            format_size(run["ps_peak_rss_bytes"]),
        )
        for run in ordered
    ]


def sentences(facts: Facts) -> Iterator[str]:
    """Summarize the table in sentences."""
    for model, speedup in facts["speedup"].items():
        if speedup >= 1:
            yield (
                f"{model}: a step over stock gRPC takes {speedup:.2f} times as long as over"
                " Farwrite."
            )
        else:
            yield (
                f"{model}: a step over Farwrite takes {1 / speedup:.2f} times as long as over stock"
                " gRPC."
            )
    for entry in facts["synchronous_weights"]:
        if entry["identical"] is not None:
            verdict = "the same bit for bit" if entry["identical"] else "NOT THE SAME"
            yield (
                f"{entry['model']}: after {entry['steps']} synchronous steps over each transport"
                f" the final weights are {verdict}."
            )


def report(facts: Facts) -> str:
    """Make the page."""
    parts = [page.paragraph(_introduction(facts)), cards(_cards(facts))]
    for model in dict.fromkeys(run["model"] for run in facts["runs"]):
        parts.append(page.heading(model))
        parts.append(charts(_charts([r for r in facts["runs"] if r["model"] == model])))
    parts += [page.heading("All figures"), page.table(HEADERS, rows(facts))]
    parts.append(page.paragraph(LEGEND, quiet=True))
    parts += [page.paragraph(text) for text in sentences(facts)]
    parts += _still_grpc(facts)
    parts += [page.heading("How it was measured"), page.bullets(facts["notes"])]
    parts.append(page.paragraph(_machine(facts), quiet=True))
    return chart_page(TITLE, parts)


def picture(facts: Facts) -> str:
    """Draw the first model's loss and step times as one SVG file."""
    first = facts["runs"][0]["model"]
    drawn = _charts([run for run in facts["runs"] if run["model"] == first])
    return standalone(beside(TITLE, drawn))


def _introduction(facts: Facts) -> str:
    settings = facts["settings"]
    return (
        f"One parameter server, {settings['workers']} workers and a coordinator are four processes"
        f" on one machine. They train on {facts['dataset']} in batches of {settings['batch']}. Both"
        " transports have the same program, seeds, order of batches and thread settings."
    )


def _cards(facts: Facts) -> list[tuple[str, str]]:
    found = []
    for model, speedup in facts["speedup"].items():
        found.append((f"{speedup:.2f}x", f"speed of a step over Farwrite, {model}"))
    for run in facts["runs"][:1]:
        other = _other(facts, run["model"])
        if other is not None:
            share = other["socket_bytes_per_step"] / other["tensor_bytes_per_step"]
            found.append(
                (f"{100 * share:.2g} %", "of the tensor bytes go through sockets over Farwrite")
            )
            found.append((counted(other["copies_per_step"]), "copies per step over Farwrite"))
    if facts["ps_peak_rss_ratio"] is not None:
        found.append(
            (
                f"{facts['ps_peak_rss_ratio']:.2f}x",
                "peak memory of the parameter server, Farwrite to gRPC",
            )
        )
    return found


def _other(facts: Facts, model: str) -> Facts | None:
    runs: list[Facts] = facts["runs"]
    return next((r for r in runs if r["model"] == model and r["transport"] == "farwrite"), None)


def _charts(runs: Sequence[Facts]) -> list[str]:
    loss = [
        Series(
            run["transport"],
            NAMES[run["transport"]],
            points=[(at, value) for at, _, value in run["loss"]],
            smooth=9,
        )
        for run in runs
    ]
    times = [
        Series(run["transport"], NAMES[run["transport"]], values=run["all_step_ms"]) for run in runs
    ]
    return [
        lines(Look("Loss over wall time", "seconds", "loss of a batch", log_y=True), loss),
        distribution(Look("Time of a step", "milliseconds; dashed: median"), times),
    ]


def _still_grpc(facts: Facts) -> list[str]:
    ours = [run for run in facts["runs"] if run["farwrite"] is not None]
    if not ours:
        return []
    table = [
        [
            what,
            *(f"{run['farwrite'].get(name, 0) / run['steps']:.3g}" for run in ours),
        ]
        for name, what in STILL_GRPC.items()
    ]
    return [
        page.heading("What gRPC still carries over Farwrite"),
        page.table(["per step, all tasks", *(run["model"] for run in ours)], table),
        page.paragraph(
            "gRPC still carries TensorFlow's control calls: the start and the end of a step, and"
            " the arguments and results that the coordinator sends and fetches.",
            quiet=True,
        ),
    ]


def _machine(facts: Facts) -> str:
    machine: dict[str, Any] = facts["machine"]
    settings = facts["settings"]
    return (
        f"{machine['cpu']}, {machine['cpus']} CPUs, Linux {machine['kernel']}, Python"
        f" {machine['python']}, Farwrite {machine['farwrite']}, TensorFlow"
        f" {facts.get('tensorflow', 'unknown')}. Load before the run:"
        f" {', '.join(map(str, facts['load']))}. Threads within an operation:"
        f" {settings['intra_op']}; between operations: {settings['inter_op']}; gRPC channels to"
        f" each peer: {settings['channels']}. Reason: {settings['why']}."
    )


def counted(value: float | None) -> str:
    """Format a count; a dash means that nothing counted it."""
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def size(value: float) -> str:
    """Format bytes with three digits."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} B"
