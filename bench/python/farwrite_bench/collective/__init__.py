"""What ``bench collective`` is made of."""
