"""The page of ``farwrite report`` in a browser: a phone and a desk, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from result_files import write_results

from browser import Page, fetch, open_browser
from farwrite_bench.report.files import read_folder
from farwrite_bench.report.results_page import results_page

pytestmark = pytest.mark.slow

PHONE, DESK = 360, 1280
LEAST_TEXT = 9.5
"""The smallest text of a chart on a phone, in pixels."""
LEAST_CONTRAST = 4.5
"""Of text, by the accessibility guidelines of the W3C (WCAG 2, level AA)."""

MEASURE = """
(() => {
  document.querySelectorAll('details').forEach(each => each.open = true);
  const width = document.documentElement.clientWidth;
  const inside = each => each.closest('.wide') !== null;
  const wide = [...document.querySelectorAll('body *')].filter(each => {
    const box = each.getBoundingClientRect();
    return !inside(each) && !each.closest('defs') && box.width > 0
      && (box.right > width + 1 || box.left < -1);
  }).map(each => each.tagName + ' ' + each.textContent.slice(0, 60));
  const charts = [...document.querySelectorAll('svg.chart')];
  const cut = [], small = [], touching = [];
  for (const chart of charts) {
    const frame = chart.getBoundingClientRect();
    const scale = frame.width / chart.viewBox.baseVal.width;
    const boxes = [];
    for (const text of chart.querySelectorAll('text')) {
      const box = text.getBoundingClientRect();
      const name = chart.getAttribute('aria-label').slice(0, 40) + ': ' + text.textContent;
      if (box.right > frame.right + 1 || box.left < frame.left - 1 ||
          box.bottom > frame.bottom + 1 || box.top < frame.top - 1) cut.push(name);
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < LEAST) small.push(name + ' ' + size);
      for (const [other, of] of boxes) {
        if (box.left < other.right - 1 && other.left < box.right - 1 &&
            box.top < other.bottom - 3 && other.top < box.bottom - 3) {
          touching.push(name + ' | ' + of);
        }
      }
      boxes.push([box, text.textContent]);
    }
  }
  const tables = [...document.querySelectorAll('.wide')].filter(
    each => each.scrollWidth > each.clientWidth
      && !['auto', 'scroll'].includes(getComputedStyle(each).overflowX));
  return JSON.stringify({wide, cut, small, touching, tables: tables.length, charts: charts.length,
    scroll: document.documentElement.scrollWidth, width});
})()
""".replace("LEAST", str(LEAST_TEXT))

CONTRAST = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const parts = colour => { canvas.fillStyle = '#000'; canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
  const light = colour => { const [r, g, b] = parts(colour).map(each => { const v = each / 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (one, two) => { const [high, low] = [light(one), light(two)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05); };
  const back = each => { for (; each; each = each.parentElement) {
    const colour = getComputedStyle(each).backgroundColor;
    if (colour !== 'rgba(0, 0, 0, 0)') return colour; } return '#fff'; };
  const poor = new Set();
  const texts = 'p, li, td, th, h1, h2, h3, summary, .card b, text';
  for (const each of document.querySelectorAll(texts)) {
    const style = getComputedStyle(each);
    const colour = each.tagName === 'text' ? style.fill : style.color;
    const found = ratio(colour, back(each));
    if (found < LEAST) poor.add(each.tagName + ' ' + colour + ' on ' + back(each) + ' ' + found);
  }
  for (const each of document.querySelectorAll('svg.chart path[style*="fill: var(--series"]')) {
    const found = ratio(getComputedStyle(each).fill, back(each));
    if (found < 3) poor.add('mark ' + getComputedStyle(each).fill + ' ' + found);
  }
  return JSON.stringify([...poor]);
})()
""".replace("LEAST", str(LEAST_CONTRAST))


@pytest.fixture(scope="module")
def chromium() -> Path:
    """The browser's program."""
    program, why_not = fetch()
    if program is None:
        pytest.skip(f"Chromium cannot be fetched: {why_not}")
    return program


@pytest.fixture
def browser(chromium: Path, tmp_path: Path) -> Iterator[Page]:
    """A page of a running browser."""
    with open_browser(chromium, tmp_path) as page:
        yield page


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """The page of all benchmarks, with a file that was left out."""
    results = tmp_path / "results"
    results.mkdir()
    write_results(results)
    (results / "a_name_that_is_as_long_as_names_of_files_can_be_without_a_blank.json").write_text(
        ""
    )
    page = tmp_path / "report.html"
    page.write_text(results_page(*read_folder(results)), encoding="utf-8")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_page_fits_its_window(browser: Page, report: Path, width: int, scheme: str) -> None:
    browser.show(report.as_uri(), width, 800, scheme)
    found: dict[str, Any] = json.loads(browser.evaluate(MEASURE))
    assert found["charts"] > 30
    assert found["scroll"] <= width
    assert found["width"] == width
    for what in ("wide", "cut", "small", "touching"):
        assert found[what] == [], what
    assert found["tables"] == 0
    assert json.loads(browser.evaluate(CONTRAST)) == []
    assert browser.console == []
    assert {url.partition(":")[0] for url in browser.requests} == {"file"}


def test_dark_and_light_have_colours_of_their_own(browser: Page, report: Path) -> None:
    seen = []
    for scheme in ("light", "dark"):
        browser.show(report.as_uri(), PHONE, 800, scheme)
        seen.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert seen == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


def test_a_page_that_does_not_fit_is_noticed(browser: Page, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><meta name=viewport content='width=device-width'><body style='margin:0'>"
        "<p style='width:500px;color:#999;background:#fff'>wide and pale</p>"
        "<svg class=chart viewBox='0 0 400 40' width=300 aria-label=x>"
        "<text x=390 y=20 font-size=5>cut</text><text x=392 y=20>over it</text></svg>"
        "<script>console.error('no')</script>"
    )
    browser.show(page.as_uri(), PHONE, 800, "light")
    found = json.loads(browser.evaluate(MEASURE))
    for what in ("wide", "cut", "small", "touching"):
        assert found[what] != [], what
    assert json.loads(browser.evaluate(CONTRAST)) != []
    assert browser.console != []
