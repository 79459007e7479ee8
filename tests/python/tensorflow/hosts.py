"""Two hosts on this machine: network namespaces joined by a cable. For root, and Linux' `ip`."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import Host

ADDRESSES = ("10.77.0.1", "10.77.0.2")
PREFIX = "farwrite-test"


def why_not() -> str | None:
    """Say why this machine cannot have two hosts; None if it can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "making network namespaces needs root and the command ip"
    probe = f"{PREFIX}-{os.getpid()}-probe"
    made = _ip("netns", "add", probe, check=False)
    if made.returncode == 0:
        made = _ip("netns", "exec", probe, "true", check=False)
        _ip("netns", "del", probe, check=False)
    return None if made.returncode == 0 else f"no network namespaces here: {made.stderr.strip()}"


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Make two hosts that see each other and nothing else, and take them away."""
    _remove_those_of_the_dead()
    unique = secrets.token_hex(3)
    names = [f"{PREFIX}-{os.getpid()}-{unique}-{end}" for end in "ab"]
    ends = [f"fw{unique}{end}" for end in "ab"]
    try:
        for name in names:
            _ip("netns", "add", name)
        # Made inside, so that nothing of it is ever among the machine's own interfaces.
        cable = ("type", "veth", "peer", "name", ends[1], "netns", names[1])
        _ip("-n", names[0], "link", "add", ends[0], *cable)
        for name, end, address in zip(names, ends, ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", end)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", end, "up")
        first, second = (
            Host(address, ("ip", "netns", "exec", name))
            for name, address in zip(names, ADDRESSES, strict=True)
        )
        yield first, second
    finally:
        for name in names:
            _ip("netns", "del", name, check=False)  # the cable goes with its ends


def _remove_those_of_the_dead() -> None:
    # A test run that is killed cannot clean up; the next one does.
    for name in _ip("netns", "list").stdout.split():
        made_by = re.match(rf"{PREFIX}-(\d+)-", name)
        if made_by and not Path(f"/proc/{made_by[1]}").exists():
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", name)


def _ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(("ip", *arguments), capture_output=True, text=True, check=check)
