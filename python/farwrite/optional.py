"""Imports packages that Farwrite does not require."""

from __future__ import annotations

import importlib
from typing import Any


def import_optional(module: str, who: str, install: str) -> Any:
    """Import `module` for `who`; `install` is the command that installs its package.

    Raises
    ------
    ModuleNotFoundError
        If the package is not installed. The message has the command.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # a module of the package is missing, or what the package needs
        raise ModuleNotFoundError(
            f"{who} needs {package}, which is not installed; run {install}", name=package
        ) from None
