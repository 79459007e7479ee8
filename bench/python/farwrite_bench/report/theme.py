"""The colours and dashes of charts, in light and in dark mode."""

from __future__ import annotations

from farwrite.run.html_page import COLOURS

INK, QUIET, RULE, CARD = "#1f2328", "#59636e", "#d1d9e0", "#f6f8fa"
"""What charts are drawn with where a page has its own colours."""
_DARK = {
    "#0969da": "#4493f8",
    "#656d76": "#9aa4af",
    "#bf3989": "#db61a2",
    "#bc4c00": "#f0883e",
    "#1a7f37": "#3fb950",
    "#8250df": "#ab7df8",
    "#1b7c83": "#39c5cf",
    "#57606a": "#b1bac4",
    "#9a6700": "#d29922",
    "#cf222e": "#ff7b72",
    "#953800": "#ffa657",
    "#0a3069": "#a5d6ff",
}
"""Each colour of a series in light, and in dark."""
_OF_KEY = {
    "grpc": "#656d76",
    "farwrite": "#0969da",
    "rpc-over-fabric": "#bf3989",
    "staged": "#bc4c00",
    "local": "#1a7f37",
    "raw": "#8250df",
    "box-shm": "#0969da",
    "box-tcp": "#1b7c83",
    "mpi": "#656d76",
    "mpi-shared": "#bc4c00",
    "tcp": "#57606a",
    "uds": "#8250df",
    "copy": "#bc4c00",
    "farwrite-shm": "#0969da",
    "farwrite-tcp": "#1b7c83",
    "farwrite-verbs": "#1a7f37",
    "limit": "#57606a",
    "farwrite-python": "#1b7c83",
    "ucx": "#8250df",
    "openmpi": "#bc4c00",
    "nixl": "#1a7f37",
    "mooncake": "#9a6700",
    "shared-memory": "#bf3989",
    "zmq": "#cf222e",
    "gloo": "#953800",
    "ray": "#0a3069",
    "tensors": "#0969da",
    "bytes": "#bc4c00",
}
_DASHES = {
    "local": (1, 2),
    "limit": (1, 2),
    "raw": (3.5, 2),
    "rpc-over-fabric": (3.5, 2),
    "farwrite-tcp": (3.5, 2),
    "box-tcp": (3.5, 2),
    "mpi": (3.5, 2),
    "farwrite-python": (3.5, 2),
    "ucx": (6, 1.5),
    "nixl": (6, 1.5),
    "mooncake": (1.5, 1.5),
    "gloo": (3.5, 2),
    "ray": (6, 1.5, 1, 1.5),
}
"""Lines that are dashed, so that no reader needs to tell two colours apart, in widths of a line."""
_OF_PAGE = {INK: "--ink", QUIET: "--quiet", RULE: "--rule", CARD: "--card"}


def colour(key: str) -> str:
    """Return the colour of a transport, or of what else a chart compares, in light mode."""
    return _OF_KEY[key]


def dashes(key: str) -> tuple[float, tuple[float, ...]] | str:
    """Return the line style of a series, for matplotlib."""
    return (0, _DASHES[key]) if key in _DASHES else "solid"


def with_modes(drawn: str) -> str:
    """Let every colour of a drawing follow the reader's mode."""
    for light in _DARK:
        drawn = drawn.replace(light, f"var({_variable(light)})")
    for light, name in _OF_PAGE.items():
        drawn = drawn.replace(light, f"var({name})")
    return drawn


def _variable(light: str) -> str:
    return f"--series-{light[1:]}"


def _variables(dark: bool) -> str:
    return " ".join(f"{_variable(one)}: {_DARK[one] if dark else one};" for one in _DARK)


STYLE = f"""{COLOURS}
  :root, svg.chart {{ {_variables(dark=False)} }}
  @media (prefers-color-scheme: dark) {{
    :root, svg.chart {{ {_variables(dark=True)} }}
  }}
  svg.chart {{ stroke-linejoin: round; }}
  svg.chart text {{ font-family: system-ui, -apple-system, "Segoe UI", sans-serif; }}"""
"""What a page, or a file, with charts needs."""
