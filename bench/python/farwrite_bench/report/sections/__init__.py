"""The parts of the page of all results, with one module for each benchmark."""
