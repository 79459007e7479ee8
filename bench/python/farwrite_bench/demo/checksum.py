"""A checksum over every byte that is fast compared with the transfer.

The array is divided into blocks of 1 MiB. The checksum has one number for each block: the sum of
its 64-bit words. Blocks in the wrong order or place therefore change the checksum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

BLOCK_BYTES = 2**20
BLOCK_WORDS = BLOCK_BYTES // 8


def blocks(array: Words) -> Words:
    """View `array`, a whole number of blocks, with one row for each block."""
    return array.reshape(-1, BLOCK_WORDS)


def checksum(array: Words) -> Words:
    """Read all of `array` and return one sum for each block."""
    sums: Words = blocks(array).sum(axis=1)
    return sums


def fill(array: Words, seed: int) -> None:
    """Fill `array` with noise that differs in every block."""
    noise = np.random.default_rng(seed).integers(2**63, size=BLOCK_WORDS, dtype=np.uint64)
    for number, block in enumerate(blocks(array)):
        np.bitwise_xor(noise, np.uint64(number), out=block)


def stamp(array: Words, sums: Words) -> None:
    """Change every block and its sum, so that the bytes of an older transfer are detected."""
    blocks(array)[:, 0] += np.uint64(1)
    sums += np.uint64(1)
