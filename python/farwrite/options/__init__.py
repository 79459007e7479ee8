"""The options: the table of all of them, and what makes those of a `Device` of it."""
