"""``farwrite run``: runs unmodified TensorFlow programs on Farwrite or on stock gRPC."""
