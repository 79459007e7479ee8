"""The parts of ``bench box``."""
