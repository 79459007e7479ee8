"""The networks of the papers' training experiments, each defined once.

A network is a function that adds layers to an `Outline`. A plain `Outline` only records the
variables and the operations of each layer; a `RealNetwork` also builds TensorFlow's graph.
"""
