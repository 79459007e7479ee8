"""Imports modules for their docstrings, without TensorFlow, Keras, PyTorch and the plug-in.

The import of farwrite.tensorflow compiles the plug-in and loads it into TensorFlow, which takes
minutes. The docstrings need nothing of that, so stand-ins take their places during the imports.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from sphinx.application import Sphinx


def setup(_app: Sphinx) -> dict[str, Any]:
    """Import the modules, which stay in sys.modules for autodoc."""
    library = mock.MagicMock()
    library.farwrite_tf_describe_json.return_value = b'{"error_code": "OK"}'
    sys.modules.update(_STAND_INS)
    with (
        mock.patch("farwrite.plugin.build.ensure_built", return_value=Path("plugin.so")),
        mock.patch.object(ctypes, "CDLL", return_value=library),
    ):
        for module in _MODULES:
            importlib.import_module(module)
    for name in _STAND_INS:
        del sys.modules[name]
    return {"parallel_read_safe": True}


_MODULES = ("farwrite.box.training.keras", "farwrite.box.training.torch", "farwrite.tensorflow")
_STAND_INS: dict[str, Any] = {
    "keras": SimpleNamespace(callbacks=SimpleNamespace(Callback=object)),
    "tensorflow": mock.MagicMock(),
    "torch": mock.MagicMock(),
}
