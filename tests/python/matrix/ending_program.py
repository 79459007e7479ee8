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

from matrix import command_line, program
from matrix.calls import WORLD
from matrix.made import calls, start
from matrix.world import the_world


def make_all() -> None:
    """Make each call, and say which one raised an error that is not ours."""
    WORLD["process"] = None  # coroutines run in this thread
    for closing in (False, True):
        for made in calls(closing):
            if not made.waits():
                made.run()
                # Python then starts no thread, and imports nothing.
                if made.outcome.startswith("raw") and "shut" not in made.says:
                    print(f"{made.name}: {made.outcome} ({made.says})", flush=True)


class Finalized:
    def __del__(self) -> None:
        make_all()


def main(fabric: str, moment: str) -> None:
    command_line.check(fabric, program.FABRICS, "fabric")
    command_line.check(moment, ("threads", "atexit", "finalizer"), "moment")
    world = the_world(fabric)
    world.__enter__()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(world))  # never left: the process ends in it
    if moment == "threads":
        never = threading.Event()
        for made in calls(closing=False):
            start(made, never, made.row.allowed("none", fabric))
        time.sleep(program.UNDER_WAY)
    elif moment == "atexit":
        atexit.register(make_all)
    elif moment == "finalizer":
        sys.modules["matrix.program"].finalized = Finalized()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*sys.argv[1:])
