"""``farwrite bench tensor``: measures the time that a tensor adds to a step of two tasks.

Each transport has two TensorFlow servers in two processes, and a client in another one, which runs
a session on them. All of them are alive at once, and the transports take turns.
"""
