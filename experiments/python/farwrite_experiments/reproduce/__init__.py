"""``farwrite reproduce``: the papers' experiments one after the other, and one page of results."""
