"""``bench calls``: what single calls cost from Python, beside the same calls from C++."""
