"""What other packages compile C++ for the installed TensorFlow with, as the plug-in is compiled."""

from farwrite.plugin.build import ensure_compiled
from farwrite.plugin.recipe import Library

__all__ = ["Library", "ensure_compiled"]
