"""TensorFlow tasks as child processes on this machine, for the benchmarks.

The process that starts them never imports TensorFlow. Each task has its own control pipe and its
own log file. It listens on ports of this machine that were free just before, and it ends with the
process that started it.
"""
