"""The nearest known name to a mistyped one, for error messages."""

from __future__ import annotations

from collections.abc import Iterable

ALIKE = 0.6
NEARLY_EQUAL = 0.8
"""For words of many programs, where something is always a little alike."""


def did_you_mean(word: str, names: Iterable[str], alike: float = ALIKE) -> str:
    """Return the end of a sentence about the unknown `word`: the name of `names` nearest to it.

    It is empty if no name is as near as `alike`, from 0 to 1.
    """
    import difflib  # for errors alone

    nearest = difflib.get_close_matches(word, names, n=1, cutoff=alike)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
