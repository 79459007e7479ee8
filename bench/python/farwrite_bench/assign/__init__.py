"""The parts of ``bench assign``."""
