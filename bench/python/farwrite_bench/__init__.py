"""The commands ``farwrite bench`` and ``farwrite demo``, over Farwrite's public API alone.

``bench`` measures Farwrite against the physical limit of the same machine and run. The loops are
C++ (``bench/src``); the Python modules start the processes, plan the phases, and make rows of the
results.
"""

import farwrite  # noqa: F401  (loads libfarwrite.so, which this package's module links to)
