"""Compiles the TensorFlow plug-in against the installed TensorFlow, and caches the result.

Only `saved_graph` imports TensorFlow. `farwrite.tensorflow` loads the plug-in.
"""
