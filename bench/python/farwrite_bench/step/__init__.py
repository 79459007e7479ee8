"""``farwrite bench step``: what a small step of a TensorFlow program costs.

Each way has the processes of a program: a client, which runs the steps, and the servers that it
uses. The clusters of all ways live at once and take turns.
"""
