"""Loads the experiments' library into TensorFlow when it is imported."""

from farwrite_experiments.library import load

load()
