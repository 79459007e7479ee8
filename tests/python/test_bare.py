"""Every subcommand and every example, with nothing installed but what its page names."""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from bare_environments import FOLDER, make_environment
from farwrite.cli import parser
from farwrite_bench.cluster.process import free_addresses

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

EXAMPLES = Path(__file__).parents[2] / "examples"

# What a page tells its reader to install, by the name of the environment.
PACKAGES = {
    "farwrite": ("farwrite",),
    "demo": ("farwrite-demo",),
    "demo-tensorflow": ("farwrite-demo[tensorflow]",),
    "bench": ("farwrite-demo", "farwrite-experiments"),
    "tensorflow": ("farwrite[tensorflow]",),
    "bench-tensorflow": ("farwrite-experiments", "farwrite-bench[tensorflow]"),
    "keras": ("farwrite[tensorflow]", "scikit-learn"),
    "scikit-learn": ("farwrite", "scikit-learn"),
    "torch": ("farwrite", "torch", "scikit-learn"),
}


class Run(NamedTuple):
    """The smallest run of a command: its words, and the environment that its page names."""

    words: str
    needs: str = "bench"
    long: bool = False  # more than a second of a processor
    status: int = 0
    says: str = ""  # a part of what it prints


# What needs TensorFlow runs by night. Without it, the command must refuse with what to install.
RUNS = {
    "info": Run("", "farwrite"),
    "config": Run("--libs", "farwrite"),
    "options": Run("", "farwrite"),
    "tensorflow build": Run("", "tensorflow"),
    "tensorflow info": Run("", "farwrite", status=1, says="pip install 'tensorflow-cpu"),
    "tensorflow analyze": Run("graph.pbtxt", "tensorflow", says="1 edge"),
    "tensorflow clean": Run("", "farwrite"),
    "run": Run("-- {python} {examples}/tensors.py", "farwrite", says="batch 4: 1048576"),
    "box serve": Run("--listen 127.0.0.1:0 --memory 8M --pool 2M", "farwrite"),
    "box list": Run("", "farwrite"),
    "bench p2p": Run("--quick --op write --sizes 4K --rounds 1", long=True),
    "bench peers": Run("--quick --sizes 4K --rounds 1", long=True, says="pip install"),
    "bench memory": Run("--quick", long=True),
    "bench calls": Run("--quick", long=True),
    "bench start": Run("--quick", long=True),
    "bench tensor": Run("--quick --sizes 4K --rounds 1", "bench-tensorflow"),
    "bench step": Run("--quick --kind session --rounds 1", "bench-tensorflow"),
    "bench feed": Run("--sizes 4K --rounds 1", "bench-tensorflow"),
    "bench ablations": Run("--quick --way push", "bench-tensorflow"),
    "bench collective": Run("--megabytes 1 --rounds 1 --steps 2", "bench-tensorflow"),
    "bench assign": Run("--megabytes 1 --rounds 1 --steps 2", "bench-tensorflow"),
    "bench train": Run("--quick --model gru --batch 1 --transport farwrite", "bench-tensorflow"),
    "bench scaling": Run(
        "--quick --model gru --batch 1 --rounds 1 --loopback --machines 1", "bench-tensorflow"
    ),
    "bench convergence": Run("--quick --task sentences --transport farwrite", "bench-tensorflow"),
    "bench sizes": Run("--model mnist_mlp", "bench-tensorflow"),
    "bench box": Run("--quick --test latency --transport box-shm", long=True),
    "bench grpc": Run("latency --quick", status=1, says="apt install"),
    "bench gpu": Run("--quick", status=1, says="install NVIDIA's driver"),
    "demo": Run("--size 16M --rounds 1", "demo", long=True),
    "demo training": Run("--steps 5 --transport grpc", "demo-tensorflow"),
    "demo box": Run("--size 1M --readers 1 --rounds 1", "demo"),
    "plan": Run("--quick --model gru", "bench-tensorflow"),
    "report": Run(".", status=1, says="run a benchmark first"),
    "reproduce": Run("--quick --part memory", long=True),
}
EXAMPLE_RUNS = {
    "alias.py": Run("", "farwrite"),
    "assign_add.py": Run("--megabytes 1 --steps 2 --ps {ps} --worker {worker}", "tensorflow"),
    "asyncio_notifications.py": Run("", "farwrite"),
    "tensors.py": Run("", "farwrite"),
    "box/keras_digits.py": Run("", "keras"),
    "box/readers.py": Run("", "scikit-learn", long=True),
    "box/torch_digits.py": Run("", "torch", long=True),
    "cluster/tf_config.py": Run("--hosts a chief -- true", "farwrite"),
    "cluster/ssh.py": Run("--help", "farwrite"),
    "cluster/train.py": Run("--help", "tensorflow"),
}
TOGETHER = {"receiver.py", "sender.py"}
"""Examples that run in one test. box/digits.py is a part of the others."""
SERVED = {"box serve", "box list"}
"""Commands that run in one test."""
GRAPH = """
node { name: "a" op: "Const" device: "/job:ps/task:0" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 1 } } } }
node { name: "b" op: "Identity" input: "a" device: "/job:worker/task:0"
  attr { key: "T" value { type: DT_FLOAT } } }
"""

# Prints each module of the packages that cannot be imported, and why.
IMPORT_ALL = """
import importlib, json, pkgutil, sys
faults = {}
for package in sys.argv[1:]:
    path = importlib.import_module(package).__path__
    for _, name, _ in pkgutil.walk_packages(path, package + "."):
        try:
            if not name.endswith(("__main__", "libfarwrite")):  # a program, and no module of Python
                importlib.import_module(name)
        except BaseException as error:
            faults[name] = f"{type(error).__name__}: {error}"
print(json.dumps(faults))
"""
# Runs each command line in this process. Prints its status and what it printed.
COMMANDS = """
import contextlib, io, json, sys, traceback
from farwrite.cli import main
ended = []
for words in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.redirect_stderr(shown):
        try:
            status = main(words)
        except SystemExit as exit:
            status = exit.code
        except BaseException:
            status = traceback.format_exc()
    ended.append((status, shown.getvalue()))
print(json.dumps(ended))
"""


def leaves(of: argparse.ArgumentParser, path: str = "") -> Iterator[str]:
    """Yield the words of each command that runs something."""
    below = [one for one in of._actions if isinstance(one, argparse._SubParsersAction)]
    if not (below and below[0].required):
        yield path
    for actions in below:
        for name, one in actions.choices.items():
            yield from leaves(one, f"{path} {name}".strip())


@functools.cache
def python_of(name: str) -> str:
    """Make an environment once, and return its Python."""
    try:
        return str(make_environment(name, PACKAGES[name]))
    except PackageNotFoundError as error:
        if error.name != "torch":
            raise
        pytest.skip("PyTorch is not installed (dependency group torch)")


def variables(folder: Path) -> dict[str, str]:
    """Return the variables of a user who has none: no cache, and none of the tests' tools."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key == "CMAKE_CXX_COMPILER_LAUNCHER" or key.startswith("CCACHE_")
    }
    return {
        **kept,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "FARWRITE_CACHE": str(FOLDER / "cache"),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }


def ended(folder: Path, *words: str, standard_input: str = "") -> tuple[int, str]:
    """Run a command to its end in `folder`; return its status and its output."""
    with subprocess.Popen(
        words,
        cwd=folder,
        env=variables(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(standard_input)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the test is over its time
        return process.returncode, output


def check(run: Run, folder: Path, *command: str) -> None:
    """Run `command` in the environment of `run`; it must end as `run` says."""
    python = python_of(run.needs)
    (folder / "graph.pbtxt").write_text(GRAPH)
    ps, worker = free_addresses(2)
    known = {"python": python, "examples": str(EXAMPLES), "ps": ps, "worker": worker}
    words = [word.format(**known) for word in run.words.split()]
    status, output = ended(folder, python, *command, *words)
    assert (status, "Traceback" in output) == (run.status, False), output[-5000:]
    assert run.says in output


def cases(runs: dict[str, Run], apart: set[str]) -> list[ParameterSet]:
    """Return the runs that a test makes one by one; the long ones run by night."""
    return [
        pytest.param(
            name,
            marks=[pytest.mark.nightly]
            if run.long or run.needs not in ("farwrite", "demo", "bench")
            else [],
        )
        for name, run in runs.items()
        if name not in apart
    ]


def test_every_command_and_every_example_has_a_run() -> None:
    assert set(RUNS) == set(leaves(parser()))
    programs = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}
    assert set(EXAMPLE_RUNS) | TOGETHER == programs - {"box/digits.py"}


def test_a_module_that_cannot_be_imported_says_what_to_install(tmp_path: Path) -> None:
    optional = {
        "farwrite.box.training.keras",
        "farwrite.box.training.torch",
        "farwrite.plugin.saved_graph",
        "farwrite.tensorflow",
    }
    imported = {
        "farwrite": (["farwrite"], optional),
        "demo": (["farwrite_demo"], set()),
        "bench": (
            ["farwrite_bench", "farwrite_experiments"],
            {"farwrite_experiments.loaded_library"},
        ),
    }
    for environment, (packages, left) in imported.items():
        status, output = ended(tmp_path, python_of(environment), "-c", IMPORT_ALL, *packages)
        assert status == 0, output
        faults = json.loads(output)
        assert set(faults) == left, faults
        for fault in faults.values():
            assert fault.startswith("ModuleNotFoundError: "), fault
            assert "which is not installed; run pip install" in fault


def test_every_command_shows_its_help_and_says_what_it_misses(tmp_path: Path) -> None:
    refused = [name for name, run in RUNS.items() if run.needs.endswith("tensorflow")]
    helps = [[*name.split(), "--help"] for name in RUNS]
    words = [*helps, *([*name.split(), *RUNS[name].words.split()] for name in refused)]
    status, output = ended(
        tmp_path, python_of("bench"), "-c", COMMANDS, standard_input=json.dumps(words)
    )
    assert status == 0, output
    results = json.loads(output)
    for name, (status, shown) in zip(RUNS, results, strict=False):
        assert (status, shown.split("\n")[0].split(" - ")[0]) == (0, f"farwrite {name}")
    for name, (status, shown) in zip(refused, results[len(helps) :], strict=True):
        assert status == 1, (name, status)
        assert "pip install" in shown, (name, shown)


@pytest.mark.timeout(900)  # the first one compiles the plug-in
@pytest.mark.parametrize("name", cases(RUNS, SERVED))
def test_the_smallest_run_of_a_command(name: str, tmp_path: Path) -> None:
    check(RUNS[name], tmp_path, "-m", "farwrite", *name.split())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", cases(EXAMPLE_RUNS, TOGETHER))
def test_an_example(name: str, tmp_path: Path) -> None:
    check(EXAMPLE_RUNS[name], tmp_path, str(EXAMPLES / name))


def test_a_box_is_served_and_listed(tmp_path: Path) -> None:
    command = (python_of(RUNS["box serve"].needs), "-m", "farwrite", "box")
    with subprocess.Popen(
        [*command, "serve", *RUNS["box serve"].words.split()],
        env=variables(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as served:
        assert served.stdout is not None
        status, output = ended(tmp_path, *command, "list", served.stdout.readline().strip())
        served.send_signal(signal.SIGTERM)
    assert (status, served.returncode) == (0, 0), output


@pytest.mark.usefixtures("example_port")
def test_the_sender_writes_to_the_receiver(tmp_path: Path) -> None:
    python = python_of("farwrite")
    with subprocess.Popen(
        [python, str(EXAMPLES / "receiver.py")],
        env=variables(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as receiver:
        status, output = ended(tmp_path, python, str(EXAMPLES / "sender.py"))
        assert status == 0, output
        assert receiver.communicate()[0] == "1048576.0\n"
