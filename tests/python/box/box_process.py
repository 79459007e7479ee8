"""Another process with a client of a box, which runs a program and can be killed."""

from __future__ import annotations

import json
import textwrap
from types import TracebackType
from typing import Any

from warm_python import WarmPython

_START = """
import json
import sys
import numpy as np
import farwrite as fw
box = fw.box.connect(sys.argv[1], **{"segment_bytes": 4 << 20, **json.loads(sys.argv[2])})
"""


class BoxProcess:
    """Runs `program`, which has `box` and `np`, and prints a line for each step."""

    def __init__(self, endpoint: str, program: str, **options: Any) -> None:
        words = ["-u", "-c", _START + textwrap.dedent(program), endpoint, json.dumps(options)]
        self._process = WarmPython(words, stderr=None)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def standard_input(self) -> int:
        """The descriptor that leads to its standard input, which its children share."""
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    def line(self) -> str:
        """Wait for the next line that it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, line: str = "") -> None:
        """Send it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it with SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> BoxProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()
