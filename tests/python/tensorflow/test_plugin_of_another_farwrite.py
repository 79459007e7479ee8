"""What a process is told that loads the plug-in beside the library of another Farwrite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from another_library import C_ABI, VERSION, build_library
from farwrite.plugin.build import ensure_built

# The package farwrite would refuse that library before the plug-in is loaded.
PROGRAM = """
import ctypes, json, sys
import tensorflow as tf
tf.load_library(sys.argv[1])
plugin = ctypes.CDLL(sys.argv[1])
plugin.farwrite_tf_describe_json.restype = ctypes.c_char_p
print(json.loads(plugin.farwrite_tf_describe_json())["error"])
"""


def test_the_plug_in_names_both_versions_and_the_files(tmp_path: Path) -> None:
    plugin, library = ensure_built(), build_library(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(plugin)],
        capture_output=True,
        text=True,
        env={**os.environ, "LD_PRELOAD": str(library)},
        timeout=250,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert f"Farwrite: the plug-in {plugin} needs C ABI " in ended.stdout
    assert (
        f" of Farwrite, and this process has loaded Farwrite {VERSION}, which has C ABI {C_ABI},"
        f" from {library}; compile the plug-in for it: farwrite tensorflow clean && farwrite"
        " tensorflow build; then start this process again\n"
    ) in ended.stdout
    assert f"has C ABI {C_ABI}, from {library}; compile" in ended.stderr  # and in its log
