"""How long objects live: in one process and interpreter, and until they are closed."""
