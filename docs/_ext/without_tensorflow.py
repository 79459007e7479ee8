"""Imports farwrite.tensorflow for its docstrings, without TensorFlow and without the plug-in.

The import compiles the plug-in and loads it into TensorFlow, which takes minutes. The docstrings
need neither, so stand-ins take their places while it is imported.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from sphinx.application import Sphinx


def setup(_app: Sphinx) -> dict[str, Any]:
    """Import the module, which stays in sys.modules for autodoc."""
    library = mock.MagicMock()
    library.farwrite_tf_describe_json.return_value = b"{}"
    sys.modules["tensorflow"] = mock.MagicMock()
    with (
        mock.patch("farwrite.plugin.build.ensure_built", return_value=Path("plugin.so")),
        mock.patch.object(ctypes, "CDLL", return_value=library),
    ):
        importlib.import_module("farwrite.tensorflow")
    del sys.modules["tensorflow"]
    return {"parallel_read_safe": True}
