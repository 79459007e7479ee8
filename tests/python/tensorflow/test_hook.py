"""What ``farwrite run`` puts into the program's Python processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from farwrite.run.child import HOOK

REWRITES = """
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.training import server_lib
from farwrite.run import entry_points

entry_points.wrap()
make, cluster = server_lib._make_server_def, tf.train.ClusterSpec({"ps": ["localhost:1"]})
assert make(cluster, "ps", 0, None, None).protocol == "grpc+farwrite"
assert make(cluster, "ps", 0, "grpc", None).protocol == "grpc+farwrite"
assert make(cluster, "ps", 0, "grpc+verbs", None).protocol == "grpc+verbs"

theirs = tf.train.ServerDef(cluster=cluster.as_cluster_def(), job_name="ps", protocol="grpc")
assert make(theirs, None, None, None, None).protocol == "grpc+farwrite"
for enter in (context.Context.set_server_def, context.Context.update_server_def):
    joined = context.Context()
    enter(joined, theirs)
    assert joined.get_server_def().protocol == "grpc+farwrite"
    assert joined.get_server_def().cluster == theirs.cluster
assert theirs.protocol == "grpc"

collective = context.Context()
collective.enable_collective_ops(theirs)
assert collective._collective_ops_server_def.protocol == "grpc+farwrite"

resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
assert resolver.rpc_layer == "grpc"
"""


def python(*arguments: str, path: tuple[Path, ...] = (), **environment: str) -> str:
    """Run a Python with `path` before the usual one, and return its standard output and error."""
    search = (*map(str, path), *filter(None, (os.environ.get("PYTHONPATH"),)))
    ended = subprocess.run(
        (sys.executable, *arguments),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(search), **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout + ended.stderr


def test_plain_grpc_becomes_farwrite_at_every_way_in() -> None:
    python("-c", REWRITES)


def test_a_sitecustomize_behind_it_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")
    said = python(
        "-c", "import sys; print(*sys.path)", path=(HOOK, tmp_path), FARWRITE_RUN="farwrite"
    )
    assert said.startswith("theirs\n")
    assert str(HOOK) not in said


def test_it_loads_nothing_before_the_program_imports_tensorflow() -> None:
    program = "import sys; print([n for n in sys.modules if n in ('farwrite', 'numpy')])"
    assert python("-c", program, path=(HOOK,), FARWRITE_RUN="farwrite") == "[]\n"


def test_without_the_variable_it_stays_out() -> None:
    program = "import sys; print(['_After' in repr(finder) for finder in sys.meta_path])"
    assert "True" in python("-c", program, path=(HOOK,), FARWRITE_RUN="farwrite")
    assert "True" not in python("-c", program, path=(HOOK,), FARWRITE_RUN="")


def test_a_program_goes_on_stock_where_the_plugin_cannot_be_had(tmp_path: Path) -> None:
    package = tmp_path / "tensorflow"
    package.mkdir()
    (package / "__init__.py").write_text("")
    summary = tmp_path / "summary"
    said = python(
        *("-c", "import tensorflow; print('went on')"),
        path=(HOOK, tmp_path),
        FARWRITE_RUN="farwrite",
        FARWRITE_RUN_OR_GRPC="1",
        FARWRITE_TF_SUMMARY=str(summary),
    )
    assert "went on\n" in said
    assert "stay on gRPC" in said
    (left,) = tmp_path.glob("summary.*.json")
    assert '"loaded": false' in left.read_text()
    assert "was not installed by pip" in left.read_text()
