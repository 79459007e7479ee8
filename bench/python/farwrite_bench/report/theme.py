"""The colours and fonts of charts, in light and in dark mode."""

from __future__ import annotations

_TRANSPORTS = {
    "grpc": ("#7a828b", "#9aa4af"),
    "farwrite": ("#0969da", "#4493f8"),
    "rpc-over-fabric": ("#bf3989", "#db61a2"),
    "staged": ("#bc4c00", "#f0883e"),
    "local": ("#1a7f37", "#3fb950"),
    "raw": ("#8250df", "#ab7df8"),
    "box-shm": ("#0969da", "#4493f8"),
    "box-tcp": ("#1b7c83", "#39c5cf"),
    "mpi": ("#7a828b", "#9aa4af"),
    "mpi-shared": ("#bc4c00", "#f0883e"),
    "tcp": ("#57606a", "#b1bac4"),
    "uds": ("#8250df", "#ab7df8"),
    "copy": ("#bc4c00", "#f0883e"),
    "farwrite-shm": ("#0969da", "#4493f8"),
    "farwrite-tcp": ("#1b7c83", "#39c5cf"),
    "farwrite-verbs": ("#1a7f37", "#3fb950"),
    "limit": ("#57606a", "#b1bac4"),
    "farwrite-python": ("#1b7c83", "#39c5cf"),
    "ucx": ("#8250df", "#ab7df8"),
    "openmpi": ("#bc4c00", "#f0883e"),
    "nixl": ("#1a7f37", "#3fb950"),
    "mooncake": ("#9a6700", "#d29922"),
    "shared-memory": ("#bf3989", "#db61a2"),
    "zmq": ("#cf222e", "#ff7b72"),
    "gloo": ("#953800", "#ffa657"),
    "ray": ("#0a3069", "#a5d6ff"),
    "tensors": ("#0969da", "#4493f8"),
    "bytes": ("#bc4c00", "#f0883e"),
}
"""The colour of each transport, or of what else a chart compares, in light and in dark mode."""
_DASHES = {
    "local": "2 4",
    "limit": "2 4",
    "raw": "7 4",
    "rpc-over-fabric": "7 4",
    "farwrite-tcp": "7 4",
    "box-tcp": "7 4",
    "mpi": "7 4",
    "farwrite-python": "7 4",
    "ucx": "12 3",
    "nixl": "12 3",
    "mooncake": "3 3",
    "gloo": "7 4",
    "ray": "12 3 2 3",
}
"""Lines that are dashed, so that no reader needs to tell two colours apart."""


def _variables(scheme: int) -> str:
    return " ".join(f"--{key}: {colours[scheme]};" for key, colours in _TRANSPORTS.items())


SERIES = f"""
  :root, svg.chart {{ {_variables(0)} }}
  @media (prefers-color-scheme: dark) {{
    :root, svg.chart {{ {_variables(1)} }}
  }}"""
"""The colour of each transport, as a CSS variable."""

_CLASSES = "".join(f"\n  svg.chart .{key} {{ --own: var(--{key}); }}" for key in _TRANSPORTS)
_CLASSES += "".join(
    f"\n  svg.chart .{key} .line {{ stroke-dasharray: {dashes}; }}"
    for key, dashes in _DASHES.items()
)

CHART = f"""
  svg.chart text {{ font: 13px system-ui, -apple-system, "Segoe UI", sans-serif;
    fill: var(--ink); }}
  svg.chart .title {{ font-size: 15px; font-weight: 600; }}
  svg.chart .quiet {{ fill: var(--quiet); font-size: 12px; }}
  svg.chart .rule {{ stroke: var(--rule); fill: none; }}
  svg.chart .page {{ fill: var(--page); }}
  svg.chart .line {{ fill: none; stroke: var(--own); stroke-width: 2; stroke-linejoin: round; }}
  svg.chart .range, svg.chart .whisker {{ fill: none; stroke: var(--own); stroke-width: 2; }}
  svg.chart .whisker {{ stroke: var(--ink); stroke-width: 1; opacity: 0.7; }}
  svg.chart .base {{ fill: none; stroke: var(--ink); stroke-dasharray: 3 3; opacity: 0.75; }}
  svg.chart .value {{ font-size: 12px; font-variant-numeric: tabular-nums; paint-order: stroke;
    stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }}
  svg.chart .faint {{ fill: none; stroke: var(--own); opacity: 0.3; }}
  svg.chart .area {{ fill: var(--own); fill-opacity: 0.28; stroke: var(--own); }}
  svg.chart .solid {{ fill: var(--own); }}
  svg.chart .pale {{ fill: var(--own); opacity: 0.4; }}
  svg.chart .mark {{ stroke: var(--own); stroke-width: 1.5; stroke-dasharray: 4 3; }}{_CLASSES}"""
"""The style of the classes in a chart. The class of a group is the key of its transport."""
