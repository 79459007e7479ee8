"""The capacity model: how long a training step takes, and what limits it."""
