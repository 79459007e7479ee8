"""``farwrite bench train``: the papers' training experiments."""
