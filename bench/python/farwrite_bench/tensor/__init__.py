"""``farwrite bench tensor``: measures the time that a tensor adds to a step of two tasks.

Each transport has two TensorFlow servers in two processes. All of them are alive at once, and a
client in another process runs sessions on them in turn.
"""
