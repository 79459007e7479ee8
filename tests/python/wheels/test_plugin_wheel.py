"""The wheel of farwrite-tensorflow beside that of farwrite, where no compiler is."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from build_wheels import Wheel
from debian_wheel import DEBIAN_11, too_new
from farwrite.plugin.prebuilt import FACTS, PACKAGE
from farwrite_bench.cluster.process import free_ports
from included import INCLUDED
from wheels.environments import PAIRS, ROOT, call, python_of, python_with

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

TENSORFLOW = "tensorflow-cpu==2.21.0"
NEWEST_TENSORFLOW = 13
"""The minor version of the newest Python for which there is a TensorFlow 2.21."""
TWO_TASKS = """
import sys
import numpy as np
import tensorflow as tf
import farwrite.tensorflow

v1 = tf.compat.v1
v1.disable_eager_execution()
cluster = {"ps": [sys.argv[1]], "worker": [sys.argv[2]]}
servers = [
    tf.distribute.Server(cluster, job, 0, protocol=farwrite.tensorflow.PROTOCOL) for job in cluster
]
with tf.device("/job:ps/task:0"):
    weights = v1.get_variable("weights", initializer=np.arange(1e6, dtype="f4"))
with tf.device("/job:worker/task:0"):
    total = tf.reduce_sum(tf.cast(weights, "float64"))
with v1.Session(servers[1].target) as session:
    session.run(v1.global_variables_initializer())
    assert session.run(total) == np.arange(1e6).sum()
print(farwrite.tensorflow.PLUGIN)
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    call(sys.executable, ROOT / "tools/build_plugin_wheel.py", folder, HOME=str(Path.home()))
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_it_is_small_and_for_old_systems(plugin: Path, tmp_path: Path) -> None:
    assert plugin.name == f"farwrite_tensorflow-0.1.0-py3-none-{DEBIAN_11.platform}.whl"
    assert plugin.stat().st_size < 1_000_000
    call(sys.executable, "-m", "zipfile", "-e", plugin, tmp_path)
    assert too_new(tmp_path / "farwrite_tensorflow" / "farwrite_tensorflow.so", DEBIAN_11) == []


def test_it_says_what_of_others_is_in_it(plugin: Path) -> None:
    with zipfile.ZipFile(plugin) as archive:
        facts = json.loads(archive.read(f"{PACKAGE}/{FACTS}"))
        (notice,) = (name for name in archive.namelist() if name.endswith("/NOTICE.txt"))
        assert ".dist-info/licenses/" in notice
        told = archive.read(notice).decode()
    assert {"eigen", "abseil-cpp", "protobuf"} < {one["name"] for one in facts[INCLUDED]}
    for one in facts[INCLUDED]:
        assert f"\n{one['name']} " in told or f"\n{one['name']}: " in told


@pytest.mark.parametrize(("wheel", "minor"), PAIRS)
def test_two_tasks_train_without_a_compiler(
    plugin: Path, wheel: Wheel, minor: int, tmp_path: Path
) -> None:
    """In no folder but the environment's, and with no program on the PATH."""
    found = python_of(wheel, minor)
    if found is None or minor > NEWEST_TENSORFLOW or wheel.free_threaded:
        pytest.skip(f"the machine has no Python 3.{minor}, or TensorFlow 2.21 no wheel for it")
    python = python_with(wheel, found)
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    call(*pip, "--only-binary=:all:", TENSORFLOW, plugin)
    nothing = {"PATH": os.devnull, "HOME": str(tmp_path)}
    tasks = [f"127.0.0.1:{port}" for port in free_ports(2)]
    said = call(python, "-c", TWO_TASKS, *tasks, **nothing).splitlines()
    assert said[-1].endswith("farwrite_tensorflow/farwrite_tensorflow.so")
    assert "site-packages" in said[-1]
    assert not (tmp_path / ".cache" / "farwrite" / "tensorflow").exists()
