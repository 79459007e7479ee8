"""Line-aligned text: line n of one file belongs to line n of the other. Words have spaces between.

The files are UTF-8. A pair with an empty line is left out, and a longer line is cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from farwrite.errors import InvalidArgument, NotFound

PAD, START, END, UNKNOWN = range(4)
"""The numbers that are no words: behind the end of a line, before and behind a sentence, and a word
that is not in the vocabulary."""
RESERVED = ("<pad>", "<start>", "<end>", "<unknown>")
WORDS = 2000
"""The numbers of a vocabulary, with the reserved ones."""
LINES_READ = 200_000
"""The lines from which a vocabulary is made."""


def check(first: Path, second: Path) -> int:
    """Check a pair of files, and return how many lines they have.

    Raises
    ------
    NotFound
        If a file does not exist.
    InvalidArgument
        If a file has no lines or is not UTF-8, or the files have different numbers of lines.
    """
    counts = []
    for path in (first, second):
        if not path.is_file():
            raise NotFound(
                f"bench convergence: {path} does not exist; put line-aligned text there, one"
                " sentence a line, or correct --data"
            )
        with path.open("rb") as file:
            counts.append(sum(1 for _ in file))
        if not counts[-1]:
            raise InvalidArgument(
                f"bench convergence: {path} has no line; put one sentence on each line"
            )
    if counts[0] != counts[1]:
        raise InvalidArgument(
            f"bench convergence: {first} has {counts[0]:,} lines and {second} has {counts[1]:,};"
            " line n of both must belong together, so use files of the same set"
        )
    return counts[0]


def vocabulary(files: Iterable[Path], words: int = WORDS) -> list[bytes]:
    """Return the reserved words and the most frequent words of the files, `words` at most.

    Words that are equally frequent are in the order of their bytes.

    Raises
    ------
    InvalidArgument
        If a line is not UTF-8.
    """
    counts: Counter[bytes] = Counter()
    for path in files:
        with path.open("rb") as file:
            for number, line in enumerate(islice(file, LINES_READ), 1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    raise InvalidArgument(
                        f"bench convergence: {path}: line {number} is not UTF-8 ({error.reason});"
                        " convert the file with iconv -t UTF-8"
                    ) from error
                counts.update(line.split())
    reserved = [word.encode() for word in RESERVED]
    for word in reserved:
        counts.pop(word, None)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return [*reserved, *ordered[: words - len(reserved)]]


def pairs(tf: Any, files: Sequence[str]) -> Any:
    """Return the dataset of the pairs of lines without those that have an empty one."""
    both = tf.data.Dataset.zip(tuple(tf.data.TextLineDataset(file) for file in files))
    return both.filter(
        lambda *lines: tf.reduce_all(
            [tf.strings.length(tf.strings.strip(line)) > 0 for line in lines]
        )
    )


def table(tf: Any, file: str) -> Any:
    """Return the lookup table from words to numbers of a vocabulary's file.

    The table lives on the device of the current scope; run ``tf.compat.v1.tables_initializer()``.
    """
    whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    return tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(file, tf.string, whole, tf.int64, number), UNKNOWN
    )


def numbers(tf: Any, words: Any, lines: Any, longest: int) -> Any:
    """Return the numbers of the words of a batch of lines, ragged, at most `longest` of a line."""
    found = tf.strings.split(lines)[:, :longest]
    return tf.ragged.map_flat_values(lambda flat: tf.cast(words.lookup(flat), tf.int32), found)


def padded(tf: Any, ragged: Any, lines: Any) -> tuple[Any, Any]:
    """Return the numbers of a batch of `lines` as a matrix, and the length of each line.

    The matrix is as wide as the longest line; behind the others it has `PAD`.
    """
    matrix, lengths = ragged.to_tensor(PAD), tf.cast(ragged.row_lengths(), tf.int32)
    matrix.set_shape([lines.shape[0], None])
    lengths.set_shape(lines.shape[:1])
    return matrix, lengths
