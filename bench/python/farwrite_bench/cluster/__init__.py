"""TensorFlow tasks as child processes on this machine, for the demo and the benchmark.

The process that starts them never imports TensorFlow. Each task has a control pipe and a log file
of its own, listens on ports of this machine only that were free a moment ago, and dies with the
process that started it.
"""
