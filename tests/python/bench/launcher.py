"""Starts ranks as OpenMPI's launcher does, and ends them all when one fails, without MPI."""

from __future__ import annotations

import os
import subprocess
import sys
import time

VERSION = "a launcher without MPI"


def main(words: list[str]) -> int:
    """Start the program behind ``-n N``, and return the exit status of the first that fails."""
    if "--version" in words:
        print(VERSION)
        return 0
    place = words.index("-n")
    count, program = int(words[place + 1]), words[place + 2 :]
    ranks = [
        subprocess.Popen(program, env={**os.environ, "OMPI_COMM_WORLD_RANK": str(number)})
        for number in range(count)
    ]
    while True:
        ended = [status for rank in ranks if (status := rank.poll()) is not None]
        if any(ended) or len(ended) == count:
            break
        time.sleep(0.02)
    for rank in ranks:
        rank.kill()
        rank.wait()
    failed = next((status for status in ended if status), 0)
    return failed if failed >= 0 else 128 - failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
