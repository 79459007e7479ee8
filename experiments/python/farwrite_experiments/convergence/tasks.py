"""The three tasks."""

from __future__ import annotations

from farwrite_experiments.convergence.images import Images
from farwrite_experiments.convergence.model import Model
from farwrite_experiments.convergence.text import Sentences, Seq2Seq

TASKS: dict[str, Model] = {each.key: each for each in (Images(), Seq2Seq(), Sentences())}
"""The tasks by key."""
