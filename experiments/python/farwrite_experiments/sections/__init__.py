"""The experiments' parts of the page of all results."""
