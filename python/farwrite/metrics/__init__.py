"""Counters: their table, the objects that ``stats()`` returns, and ``/metrics`` over HTTP."""
