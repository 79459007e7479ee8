"""The sending process of ``farwrite bench p2p``: ``python -m farwrite_bench.p2p.sender``.

The process reads one JSON object per line from its standard input: first a `Setup` with the stage's
descriptor and the receiver's endpoint, then one `Phase` after the other. It answers each with one
line, and ends when its input ends.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from farwrite.errors import Error
from farwrite_bench._native import Role
from farwrite_bench.p2p.pair import Phase, Setup, open_peer, run_phase


def main() -> int:
    """Run the sending side of one run."""
    # Ctrl-C reaches the whole process group; the parent ends this process in good order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _serve()
    except Error as error:
        _answer({"error": str(error)})
        return 1
    return 0


def _serve() -> None:
    setup = json.loads(sys.stdin.readline())
    stage, endpoint = setup.pop("stage"), setup.pop("endpoint")
    peer = open_peer(Role.SENDER, Setup(**setup), stage)
    try:
        _answer({})
        first = peer.prepare(endpoint)
        _answer(
            {
                "allocate_seconds": first.allocate_seconds,
                "open_seconds": first.open_seconds,
                "registrations": first.registrations,
            }
        )
        for line in sys.stdin:
            outcome = run_phase(peer, Phase(**json.loads(line)))
            _answer(
                {
                    "seconds": outcome.seconds,
                    "cpu_seconds": outcome.cpu_seconds,
                    "bad": outcome.bad,
                    "samples_us": outcome.samples_us,
                    "copies": outcome.copies,
                    "registrations": outcome.registrations,
                }
            )
    except Error:
        peer.give_up()
        raise
    peer.close()


def _answer(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    sys.exit(main())
