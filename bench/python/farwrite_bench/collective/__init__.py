"""The parts of ``bench collective``."""
