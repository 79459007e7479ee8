"""``farwrite bench feed``: feeds and fetches of a client whose master is in another process."""
