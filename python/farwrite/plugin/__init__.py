"""Gets the TensorFlow plug-in: finds the wheel, compiles against it, keeps the result.

Nothing here imports TensorFlow, and nothing here loads the plug-in: `farwrite.tensorflow` does.
"""
