"""The Python blocks of the pages run as printed; TensorFlow's are in a folder below."""

from __future__ import annotations

from pathlib import Path

import pytest

from page_programs import pages_to_run, run_page
from pages import name_of


@pytest.mark.usefixtures("example_port")
@pytest.mark.parametrize("page", pages_to_run(tensorflow=False), ids=name_of)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path, seconds=90)
