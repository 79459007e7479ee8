"""Memory: registered arrays, arrays on GPUs, and the arrays of the caller."""
