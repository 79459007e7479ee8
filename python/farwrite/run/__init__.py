"""``farwrite run``: unmodified TensorFlow programs on Farwrite, and stock beside it."""
