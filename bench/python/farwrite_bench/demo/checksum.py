"""A checksum of every byte that is fast enough to stand beside the transfer.

The array is seen as blocks of 1 MiB. Its checksum is the sum of the 64-bit words of each block: one
number a block, so that blocks in the wrong order or place show up, too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

BLOCK_BYTES = 2**20
BLOCK_WORDS = BLOCK_BYTES // 8


def blocks(array: Words) -> Words:
    """View `array`, a whole number of blocks, as one row a block."""
    return array.reshape(-1, BLOCK_WORDS)


def checksum(array: Words) -> Words:
    """Read all of `array` and return one sum a block."""
    sums: Words = blocks(array).sum(axis=1)
    return sums


def fill(array: Words, seed: int) -> None:
    """Fill `array` with noise, every block with its own."""
    noise = np.random.default_rng(seed).integers(2**63, size=BLOCK_WORDS, dtype=np.uint64)
    for number, block in enumerate(blocks(array)):
        np.bitwise_xor(noise, np.uint64(number), out=block)


def stamp(array: Words, sums: Words) -> None:
    """Change every block a little and its sum with it: an older transfer cannot pass for a new."""
    blocks(array)[:, 0] += np.uint64(1)
    sums += np.uint64(1)
