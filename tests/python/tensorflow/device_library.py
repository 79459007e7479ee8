"""The device of tests/tensorflow_device, compiled once for the installed TensorFlow."""

from __future__ import annotations

from pathlib import Path

from farwrite.plugin.library import Library, ensure_compiled

SOURCES = Path(__file__).parents[2] / "tensorflow_device"


def device_library() -> Path:
    """Return the library. Compile it at its first use."""
    # Its sources include no header of Farwrite's.
    library = Library(SOURCES, "fartest.so", "device of the tests", "no header")
    return ensure_compiled(library)


if __name__ == "__main__":
    device_library()
