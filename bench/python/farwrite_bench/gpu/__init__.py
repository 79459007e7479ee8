"""``farwrite bench gpu``: memory of one GPU between two processes, beside what the driver does."""
