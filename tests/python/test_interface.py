"""The interface of the package: what dir() lists, and which objects leave their process."""

from __future__ import annotations

import ast
import copy
import enum
import importlib
import inspect
import pickle
import re
from pathlib import Path
from types import ModuleType

import pytest

import farwrite as fw
from farwrite.lifetime.handle import Handle

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/python.md").read_text()
NAMES = re.findall(r"^\.\. auto(?:class|function|exception|data):: (\S+)$", PAGE, re.MULTILINE)
MODULES = sorted({name.rpartition(".")[0] for name in NAMES})
LIGHT = [
    name for name in MODULES if name.rpartition(".")[2] not in ("keras", "torch", "tensorflow")
]
"""The modules whose import needs no other package."""


def tree(module: str) -> ast.Module:
    """Return the syntax of the source of a module."""
    path = ROOT / "python" / Path(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(source.read_text())


CLASSES = [
    kind
    for module in map(importlib.import_module, LIGHT)
    for kind in (getattr(module, name) for name in module.__all__)
    if inspect.isclass(kind)
]


def is_value(kind: type) -> bool:
    """Tell whether the class's objects are plain values."""
    return issubclass(kind, (BaseException, tuple, enum.Enum)) or hasattr(
        kind, "__dataclass_fields__"
    )


def test_the_modules_are_found() -> None:
    assert {"farwrite", "farwrite.box", "farwrite.box.training", "farwrite.tensorflow"} <= {
        *MODULES
    }


@pytest.mark.parametrize("name", MODULES)
def test_every_public_module_chooses_what_dir_lists(name: str) -> None:
    assert "__dir__" in {node.name for node in tree(name).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", LIGHT)
def test_dir_lists_the_interface_alone(name: str) -> None:
    module = importlib.import_module(name)
    others = set(dir(module)) - set(module.__all__) - {"__version__"}
    assert set(module.__all__) <= set(dir(module))
    assert all(isinstance(getattr(module, other), ModuleType) for other in others)
    assert {f"{name}.{other}" for other in others} <= {*MODULES, "farwrite.trace"}


def test_dir_lists_what_is_imported_at_its_first_use() -> None:
    assert {"__version__", "box", "trace"} <= set(dir(fw))
    assert "training" in dir(fw.box)
    assert "merge" in dir(fw.trace)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_public_class_is_of_values_or_of_handles(kind: type) -> None:
    assert is_value(kind) != issubclass(kind, Handle)


@pytest.mark.parametrize("name", sorted({*MODULES} - {*LIGHT} - {"farwrite.tensorflow"}))
def test_so_are_those_that_need_other_packages(name: str) -> None:
    found = [node for node in tree(name).body if isinstance(node, ast.ClassDef)]
    assert found
    for node in found:
        assert {"Handle", "Closing"} & {getattr(base, "id", "") for base in node.bases}


HANDLES = sorted(
    {kind for kind in CLASSES if not is_value(kind) and not inspect.isabstract(kind)},
    key=lambda kind: kind.__name__,
)
OWNERS = {
    "device": fw.Device,
    "channel": fw.Channel,
    "client": fw.box.Client,
    "model": fw.box.Model,
}


@pytest.mark.parametrize("kind", HANDLES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("leave", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_object_of_this_process_says_what_to_do_in_another(kind: type, leave) -> None:
    with pytest.raises(TypeError, match=f"cannot pickle or copy '{kind.__name__}'") as raised:
        leave(object.__new__(kind))
    remedy = str(raised.value).partition("; ")[2]
    assert remedy
    for owner, call in re.findall(r"\b(\w+)\.(\w+)\(", remedy):
        assert owner not in OWNERS or callable(getattr(OWNERS[owner], call)), remedy


def test_a_users_subclass_may_say_how_it_is_opened_again() -> None:
    with Reopened() as device:
        again = pickle.loads(pickle.dumps(device))
        assert again.endpoint != device.endpoint
        again.close()


class Reopened(fw.Device):
    """A device that is another one in another process."""

    def __reduce__(self) -> tuple[type[Reopened], tuple[()]]:
        return Reopened, ()
