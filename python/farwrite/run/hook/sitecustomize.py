"""Runs at the start of each Python process of ``farwrite run``, and in no other process.

Its folder is first in PYTHONPATH. The module imports only the standard library until the program
imports TensorFlow. Most Python processes of a program never import TensorFlow, and Farwrite may
not be installed in this Python.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _AfterTensorFlow(MetaPathFinder):
    """Runs `farwrite.run.inside` right after the import of TensorFlow."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Runs the real loader, and then `farwrite.run.inside`."""

    def __init__(self, real: Loader) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        module.__loader__ = self._real
        self._real.exec_module(module)
        try:
            inside = importlib.import_module("farwrite.run.inside")
        except ImportError as error:
            _without_farwrite(error)
        else:
            inside.start()


def _without_farwrite(error: ImportError) -> None:
    if os.environ["FARWRITE_RUN"] == "stock":
        return  # nothing is measured, and nothing else is missing
    may = bool(os.environ.get("FARWRITE_RUN_OR_GRPC"))
    then = (
        "its tensors stay on gRPC"
        if may
        else "install Farwrite there, or use farwrite run --or-grpc to continue over gRPC"
    )
    print(
        f"farwrite run: {sys.executable} has TensorFlow but not Farwrite ({error}); {then}",
        file=sys.stderr,
    )
    if not may:
        raise SystemExit(1)


def _chain() -> None:
    # Another sitecustomize may stand behind this one, which Python would have run instead.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    if ours is not None:
        sys.modules.setdefault("sitecustomize", ours)


if os.environ.get("FARWRITE_RUN"):
    sys.meta_path.insert(0, _AfterTensorFlow())
_chain()
