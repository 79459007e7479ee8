"""Farwrite's plug-in for TensorFlow, compiled. `farwrite.plugin.prebuilt` finds it."""
