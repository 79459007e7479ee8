"""``farwrite demo``: hands an array to another process in four ways, and trains a network."""
