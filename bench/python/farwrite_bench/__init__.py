"""The commands ``farwrite bench`` and ``farwrite report``, which use only Farwrite's public API.

``bench`` measures Farwrite and the physical limit of the same machine in one run. The measuring
loops are C++ (``bench/src``). The Python modules start the processes, plan the phases, and make
rows of the results.
"""

import farwrite  # noqa: F401  (loads libfarwrite.so, which this package's module links to)
