"""What repeats the papers' experiments: training, convergence, scaling, capacity and sizes.

They are benchmarks beside those of `farwrite_bench`, the commands ``farwrite plan`` and ``farwrite
reproduce``, and the papers' own figures on the page of ``farwrite report``.
"""
