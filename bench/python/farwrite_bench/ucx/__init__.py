"""UCX's own library in the rounds of ``bench p2p --against ucx``."""
