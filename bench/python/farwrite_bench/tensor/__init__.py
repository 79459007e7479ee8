"""``farwrite bench tensor``: what a tensor adds to a step when its consumer is another task.

Two TensorFlow servers in two processes for each transport, all alive at once, and a client in
another process that runs sessions on them in turn.
"""
