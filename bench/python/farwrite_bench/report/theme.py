"""The colours and letters of every chart, in light and in dark, besides those of pages."""

from __future__ import annotations

SERIES = """
  :root, svg.chart { --grpc: #7a828b; --farwrite: #0969da; --staged: #bc4c00; --local: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    :root, svg.chart {
      --grpc: #9aa4af; --farwrite: #4493f8; --staged: #f0883e; --local: #3fb950;
    }
  }"""
"""The colour of each transport."""

CHART = """
  svg.chart text { font: 12.5px system-ui, -apple-system, "Segoe UI", sans-serif;
    fill: var(--ink); }
  svg.chart .title { font-size: 14.5px; font-weight: 600; }
  svg.chart .quiet { fill: var(--quiet); font-size: 11.5px; }
  svg.chart .rule { stroke: var(--rule); fill: none; }
  svg.chart .page { fill: var(--page); }
  svg.chart .line { fill: none; stroke: var(--own); stroke-width: 2; stroke-linejoin: round; }
  svg.chart .faint { fill: none; stroke: var(--own); opacity: 0.3; }
  svg.chart .area { fill: var(--own); fill-opacity: 0.28; stroke: var(--own); }
  svg.chart .solid { fill: var(--own); }
  svg.chart .mark { stroke: var(--own); stroke-width: 1.5; stroke-dasharray: 4 3; }
  svg.chart .grpc { --own: var(--grpc); } svg.chart .farwrite { --own: var(--farwrite); }
  svg.chart .staged { --own: var(--staged); } svg.chart .local { --own: var(--local); }"""
"""What the classes in a chart mean. A group's class is the key of its transport."""
