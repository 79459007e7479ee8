"""``farwrite bench p2p``: bytes between two processes, of one host or of two."""
