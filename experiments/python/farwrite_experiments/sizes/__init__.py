"""``farwrite bench sizes``: how large the tensors are that cross tasks in a training step."""
