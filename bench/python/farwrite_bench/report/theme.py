"""The colours and dashes of charts, in light and in dark mode."""

from __future__ import annotations

from farwrite.run.html_page import COLOURS

INK, QUIET, RULE, CARD = "#1f2328", "#59636e", "#d1d9e0", "#f6f8fa"
"""What charts are drawn with where a page has its own colours."""
_COLOURS = {
    "#0969da": ("#4493f8", "farwrite farwrite-shm box-shm tensors"),
    "#656d76": ("#9aa4af", "grpc mpi"),
    "#bf3989": ("#db61a2", "rpc-over-fabric shared-memory"),
    "#bc4c00": ("#f0883e", "staged copy mpi-shared openmpi bytes"),
    "#1a7f37": ("#3fb950", "farwrite-verbs local nixl"),
    "#8250df": ("#ab7df8", "raw uds ucx"),
    "#1b7c83": ("#39c5cf", "farwrite-tcp box-tcp farwrite-python"),
    "#57606a": ("#b1bac4", "tcp limit"),
    "#9a6700": ("#d29922", "mooncake"),
    "#cf222e": ("#ff7b72", "zmq"),
    "#953800": ("#ffa657", "gloo"),
    "#0a3069": ("#a5d6ff", "ray"),
}
"""Each colour of a series in light, the same in dark, and the keys of the series."""
_OF_KEY = {key: light for light, (_, keys) in _COLOURS.items() for key in keys.split()}
_DASHES: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("local", "limit"), (1, 2)),
    **dict.fromkeys(("raw", "rpc-over-fabric", "farwrite-tcp", "box-tcp"), (3.5, 2)),
    **dict.fromkeys(("mpi", "farwrite-python", "gloo"), (3.5, 2)),
    **dict.fromkeys(("ucx", "nixl"), (6, 1.5)),
    "mooncake": (1.5, 1.5),
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
    for light, name in {**_VARIABLES, **_OF_PAGE}.items():
        drawn = drawn.replace(light, f"var({name})")
    return drawn


_VARIABLES = {light: f"--series-{light[1:]}" for light in _COLOURS}
_LIGHT = " ".join(f"{name}: {light};" for light, name in _VARIABLES.items())
_DARK = " ".join(f"{name}: {_COLOURS[light][0]};" for light, name in _VARIABLES.items())
STYLE = f"""{COLOURS}
  :root, svg.chart {{ {_LIGHT} }}
  @media (prefers-color-scheme: dark) {{
    :root, svg.chart {{ {_DARK} }}
  }}
  svg.chart {{ stroke-linejoin: round; }}
  svg.chart text {{ font-family: system-ui, -apple-system, "Segoe UI", sans-serif; }}"""
"""What a page, or a file, with charts needs."""
