"""The variables of the plug-in: what it does not understand, it refuses by name."""

from __future__ import annotations

import os
import subprocess
import sys

from farwrite.options.option import Kind
from farwrite.options.table import OPTIONS

# A process for each variable, forked from one that has imported TensorFlow.
PROGRAM = """
import os, sys
import tensorflow
from farwrite.errors import InvalidArgument
for variable in sys.argv[1:]:
    if os.fork() == 0:
        os.environ[variable] = "nonsense"
        try:
            import farwrite.tensorflow
        except InvalidArgument as error:
            print(error, flush=True)
        os._exit(0)
    os.wait()
"""


def test_a_variable_of_the_plug_in_that_cannot_be_read_is_named() -> None:
    chosen = [
        option
        for option in OPTIONS
        if option.variable.startswith("FARWRITE_TF_") and option.kind in (Kind.CHOICE, Kind.SWITCH)
    ]
    assert len(chosen) == 4
    command = [sys.executable, "-c", PROGRAM, *(option.variable for option in chosen)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    errors = ended.stdout.splitlines()
    assert len(errors) == len(chosen), ended.stderr
    for error, option in zip(errors, chosen, strict=True):
        words = option.choices or ("on", "off")
        accepted = f"{', '.join(words[:-1])} or {words[-1]}"
        assert f"{option.variable}=nonsense is not {accepted}" in error


SERVER = """
import tensorflow as tf
import farwrite.tensorflow
tf.distribute.Server({"worker": ["127.0.0.1:0"]}, "worker", 0, protocol="grpc+farwrite")
"""


def test_a_numa_node_that_the_machine_lacks_is_said_at_the_start() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SERVER],
        env={**os.environ, "FARWRITE_NUMA_NODE": "1023"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode != 0
    said = "Farwrite: cannot open a device: bind memory to NUMA node: the kernel refuses node 1023"
    assert said in ended.stderr
