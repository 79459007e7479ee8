"""Makes a command, a table, a file, charts and a part of the page of a benchmark's declaration."""
