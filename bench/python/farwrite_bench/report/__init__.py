"""Charts and HTML pages that need no other file, fit a phone, and have a dark mode."""
