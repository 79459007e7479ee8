"""A process of another user, for test_token.py: tries to reach a device and its memory.

    python other_user.py UID ENDPOINT COOKIE

Prints a JSON object: for each attempt what it came to.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import farwrite as fw

WAIT = 20.0


def read_secret(endpoint: str, **options: Any) -> str:
    """Read the array "secret" of the device at `endpoint`."""
    with fw.Device(**options) as device, device.connect(endpoint, WAIT) as channel:
        return f"read {channel.lookup('secret', WAIT).read()[:1]} over {channel.peer.fabric}"


def outcome(attempt: Callable[[], str]) -> str:
    """Do it, or say why not."""
    try:
        return attempt()
    except (fw.Error, OSError) as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Become that user, then try everything."""
    user, endpoint, cookie = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    found = {"file": outcome(cookie.read_text)}
    for fabric in ("shm", "tcp"):
        options = {"fabrics": [fabric]}
        found[fabric] = outcome(lambda options=options: read_secret(endpoint, **options))
        options = {"fabrics": [fabric], "token": None}
        found[f"{fabric}, None"] = outcome(lambda options=options: read_secret(endpoint, **options))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
