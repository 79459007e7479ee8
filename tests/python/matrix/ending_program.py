"""The end of the interpreter while calls are made: ending_program.py FABRIC MOMENT.

`threads`: each call is under way, again and again, in a daemon thread that outlives the
interpreter. `atexit`, `finalizer`: all calls are made by an exit handler, or by the finalizer of a
module's global. The process has to end with status 0 and without a word. It leaves the box's
folder in `TMPDIR`. `test_matrix.py` runs it.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
import threading
import time

from matrix import program
from matrix.calls import WORLD
from matrix.world import the_world


def make_all() -> None:
    """Make each call, and say which one raised an error that is not ours."""
    WORLD["process"] = None  # coroutines run in this thread
    for closing in (False, True):
        for made in program.calls(closing):
            if "waits" not in made.row.allowed("none"):
                made.run()
                # Python then starts no thread, and imports nothing.
                if made.outcome.startswith("raw") and "shut" not in made.says:
                    print(f"{made.kind}.{made.entry}: {made.outcome} ({made.says})", flush=True)


class Finalized:
    def __del__(self) -> None:
        make_all()


def main(fabric: str, moment: str) -> None:
    program.check(fabric, program.FABRICS, "fabric")
    program.check(moment, ("threads", "atexit", "finalizer"), "moment")
    world = the_world(fabric)
    world.__enter__()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(world))  # never left: the process ends in it
    if moment == "threads":
        never = threading.Event()
        for made in program.calls(closing=False):
            program.start(made, never, made.row.allowed("none", fabric))
        time.sleep(program.UNDER_WAY)
    elif moment == "atexit":
        atexit.register(make_all)
    elif moment == "finalizer":
        sys.modules["matrix.program"].finalized = Finalized()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*sys.argv[1:])
