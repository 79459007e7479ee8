"""Compares a tensor's way between two devices over Farwrite with its way in stock TensorFlow.

    python tests/python/tensorflow/device_benchmark.py [MIB] [TURNS]

The devices are those of tests/tensorflow_device, whose copies are memcpy. Two clusters take turns,
so that what else the machine does falls on both. Prints JSON. `added` is by how many milliseconds
the tensor makes a step longer than one element does, the median of all turns. `ratio` is the median
of the turns' ratios. `copies` is how often the sender's device and the receiver's copied the tensor
in a step. FARWRITE_FABRICS names the fabric.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cluster import FARWRITE, STOCK, Cluster, cluster, forker
from device_library import device_library
from faults import wait_for

JOBS = {"ps": 1, "worker": 1}
STEPS = 5  # in a turn
WARM = 4


def turn(client: subprocess.Popen[str], steps: int) -> dict[str, list[float]]:
    assert client.stdin is not None and client.stdout is not None
    client.stdin.write(f"{steps}\n")
    client.stdin.flush()
    taken: dict[str, list[float]] = json.loads(client.stdout.readline())
    return taken


def added(taken: dict[str, list[float]]) -> float:
    """Return the milliseconds that the tensor adds to a step of this turn."""
    return 1e3 * (statistics.median(taken["large"]) - statistics.median(taken["small"]))


def copied(made: Cluster) -> tuple[int, int]:
    """Return the bytes that the sender's device and the receiver's device have copied."""
    sender, receiver = (made.tasks[name].ask("device counters") for name in ("ps0", "worker0"))
    return sender["bytes_to_host"], receiver["bytes_to_device"]


def measure(folder: Path, mib: int, turns: int) -> dict[str, Any]:
    found: dict[str, list[float]] = {STOCK: [], FARWRITE: []}
    environment = {"FARTEST_LIBRARY": str(device_library())}
    with contextlib.ExitStack() as stack:
        clusters, clients, before, copies = {}, {}, {}, {}
        for protocol in found:
            place = folder / protocol
            place.mkdir()
            made = stack.enter_context(cluster(place, JOBS, protocol, environment))
            clusters[protocol] = made
            clients[protocol] = made.start_program("device_edge_times.py", str(mib))
            wait_for(clients[protocol], "built")
            turn(clients[protocol], WARM)
            before[protocol] = copied(made)
        for _ in range(turns):
            for protocol, client in clients.items():
                found[protocol].append(added(turn(client, STEPS)))
        for protocol, made in clusters.items():
            once = turns * STEPS * (mib << 20)
            copies[protocol] = [
                round((after - first) / once, 3)
                for first, after in zip(before[protocol], copied(made), strict=True)
            ]
    ratios = [ours / theirs for ours, theirs in zip(found[FARWRITE], found[STOCK], strict=True)]
    return {
        "mib": mib,
        "turns": turns,
        "steps": STEPS,
        "added": {protocol: statistics.median(times) for protocol, times in found.items()},
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "copies": copies,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    mib, turns = (int(given) for given in (*sys.argv[1:3], *(64, 7)[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder, forker():
        print(json.dumps(measure(Path(folder), mib, turns), indent=2))


if __name__ == "__main__":
    main()
