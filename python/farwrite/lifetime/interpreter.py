"""Refuses subinterpreters, before the package loads its core.

The core has one state for the process, which belongs to the interpreter that loads it first. Loaded
in a second one, it would leave both without their classes, or hang at the next call.
"""

from __future__ import annotations

import importlib


def check_main() -> None:
    """Raise ImportError in every interpreter of the process but the main one."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # since Python 3.13, and before
        try:
            interpreters = importlib.import_module(name)
        except ImportError:
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError(
                "farwrite works in the main interpreter of a process alone, and this is a"
                " subinterpreter; import it there, or use a process (multiprocessing)"
            )
        return


check_main()
