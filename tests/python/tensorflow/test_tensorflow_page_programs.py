"""The Python blocks of the pages on TensorFlow run as printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster import QUIET

from page_programs import pages_to_run, run_page
from pages import name_of


@pytest.mark.timeout(330)
@pytest.mark.parametrize("page", pages_to_run(tensorflow=True), ids=name_of)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path, seconds=300, environment=QUIET)
