"""``farwrite bench``: Farwrite measured against the physical limit of the same machine and run.

The loops are C++ (``src/bench``); this package starts the processes, plans the phases, and turns
what they saw into rows.
"""
