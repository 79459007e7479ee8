"""``farwrite bench convergence``: three tasks, each trained to a stated quality."""
