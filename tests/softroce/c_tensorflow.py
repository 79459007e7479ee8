"""TensorFlow's runtime, as the installed wheel has it, by its C API and without its Python modules.

They take minutes to import where the processor is emulated; the libraries under them, in which are
servers, sessions and kernels, are loaded in seconds.
"""

from __future__ import annotations

import ctypes
import enum
import importlib.util
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path


class Type(enum.IntEnum):
    """A tensor's type (types.proto)."""

    FLOAT = 1
    INT32 = 3
    STRING = 7
    INT64 = 9
    BOOL = 10


SCALARS = {Type.FLOAT: "<f", Type.INT32: "<i"}
Fields = Sequence[tuple[int, "int | str | bytes"]]


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Return a protocol buffer with these (number, value); numbers are varints."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(_varint(number << 3) + _varint(value))
        else:
            raw = value.encode() if isinstance(value, str) else value
            parts.append(_varint(number << 3 | 2) + _varint(len(raw)) + raw)
    return b"".join(parts)


def of_type(dtype: Type) -> bytes:
    """Return an attribute (AttrValue) that is a type."""
    return message((6, int(dtype)))


def of_int(value: int) -> bytes:
    """Return an attribute that is a number."""
    return message((3, value))


def of_shape(*sizes: int) -> bytes:
    """Return an attribute that is a shape."""
    return message((7, message(*((2, message((1, size))) for size in sizes))))


def of_tensor(dtype: Type, value: float | str) -> bytes:
    """Return an attribute that is a scalar tensor."""
    content = (8, value) if isinstance(value, str) else (4, struct.pack(SCALARS[dtype], value))
    return message((8, message((1, int(dtype)), (2, b""), content)))


class Graph:
    """A GraphDef, node by node."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []

    def add(self, name: str, op: str, device: str, *inputs: str, **attributes: bytes) -> str:
        """Add a node and return its name; an input ^name is one of control."""
        fields: list[tuple[int, int | str | bytes]] = [(1, name), (2, op)]
        fields += [(3, one) for one in inputs]
        fields.append((4, device))
        fields += [(5, message((1, key), (2, value))) for key, value in attributes.items()]
        self.nodes.append(message(*fields))
        return name

    def constant(self, name: str, device: str, dtype: Type, value: float | str) -> str:
        """Add a scalar constant and return its name."""
        attributes = {"dtype": of_type(dtype), "value": of_tensor(dtype, value)}
        return self.add(name, "Const", device, **attributes)

    def serialized(self) -> bytes:
        """Return the GraphDef."""
        return message(*((1, node) for node in self.nodes))


class _Output(ctypes.Structure):
    _fields_ = (("operation", ctypes.c_void_p), ("index", ctypes.c_int))


class Library:
    """The runtime's libraries, loaded into this process."""

    def __init__(self) -> None:
        found = importlib.util.find_spec("tensorflow")  # imports nothing
        assert found is not None and found.origin is not None, "TensorFlow is not installed"
        folder = Path(found.origin).parent
        for name in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2"):
            self._c = ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)

    def load_plugin(self, path: Path) -> ctypes.CDLL:
        """Load a library of kernels and the like, as tf.load_library() does."""
        self.checked("TF_LoadLibrary", str(path).encode())
        return ctypes.CDLL(str(path))

    def call(self, function: str, *arguments: object) -> int | None:
        """Call a function that returns a pointer, or nothing of interest."""
        callee = getattr(self._c, function)
        callee.restype = ctypes.c_void_p
        result: int | None = callee(*map(_converted, arguments))
        return result

    def checked(self, function: str, *arguments: object) -> int | None:
        """Call a function whose last parameter is a TF_Status, which must be OK."""
        status = self.call("TF_NewStatus")
        result = self.call(function, *arguments, status)
        if self._c.TF_GetCode(_converted(status)) != 0:
            raise RuntimeError(f"{function}: {self.text('TF_Message', status)}")
        self.call("TF_DeleteStatus", status)
        return result

    def text(self, function: str, *arguments: object) -> str:
        """Call a function that returns a text."""
        return ctypes.string_at(self.call(function, *arguments) or 0).decode()

    def start_server(
        self, cluster: Mapping[str, Sequence[str]], job: str, index: int, protocol: str
    ) -> str:
        """Start one task's server, for as long as the process lives; return its target."""
        jobs = []
        for name, tasks in cluster.items():
            entries = [message((1, at), (2, task)) for at, task in enumerate(tasks)]
            jobs.append(message((1, name), *((2, entry) for entry in entries)))
        tasks_of_all = message(*((1, one) for one in jobs))
        definition = message((1, tasks_of_all), (2, job), (3, index), (5, protocol))
        server = self.checked("TF_NewServer", definition, len(definition))
        self.checked("TF_ServerStart", server)
        return self.text("TF_ServerTarget", server)


class Session:
    """A session of a graph."""

    def __init__(self, library: Library, graph: Graph, target: str) -> None:
        self._library = library
        self._graph = library.call("TF_NewGraph")
        serialized = graph.serialized()
        buffer = library.call("TF_NewBufferFromString", serialized, len(serialized))
        importing = library.call("TF_NewImportGraphDefOptions")
        library.checked("TF_GraphImportGraphDef", self._graph, buffer, importing)
        options = library.call("TF_NewSessionOptions")
        library.call("TF_SetTarget", options, target.encode())
        self._session = library.checked("TF_NewSession", self._graph, options)

    def run(
        self,
        feeds: Mapping[str, tuple[Type, float]],
        fetches: Sequence[str],
        targets: Sequence[str] = (),
    ) -> list[bytes]:
        """Run a step with scalar feeds; return the bytes of what was fetched."""
        values = [self._scalar(dtype, value) for dtype, value in feeds.values()]
        fetched = (ctypes.c_void_p * len(fetches))()
        self._library.checked(
            "TF_SessionRun",
            *(self._session, None),
            *(self._outputs(list(feeds)), (ctypes.c_void_p * len(values))(*values), len(values)),
            *(self._outputs(fetches), fetched, len(fetches)),
            *((ctypes.c_void_p * len(targets))(*map(self._operation, targets)), len(targets)),
            None,
        )
        results = [self._bytes(tensor) for tensor in fetched]
        for tensor in (*values, *fetched):
            self._library.call("TF_DeleteTensor", tensor)
        return results

    def close(self) -> None:
        """End the session."""
        self._library.checked("TF_CloseSession", self._session)

    def _operation(self, name: str) -> int:
        found = self._library.call("TF_GraphOperationByName", self._graph, name.encode())
        assert found is not None, f"no node {name}"
        return found

    def _outputs(self, names: Sequence[str]) -> ctypes.Array[_Output]:
        return (_Output * len(names))(*(_Output(self._operation(name), 0) for name in names))

    def _scalar(self, dtype: Type, value: float) -> int | None:
        raw = struct.pack(SCALARS[dtype], value)
        tensor = self._library.call("TF_AllocateTensor", int(dtype), None, 0, len(raw))
        ctypes.memmove(self._library.call("TF_TensorData", tensor) or 0, raw, len(raw))
        return tensor

    def _bytes(self, tensor: int | None) -> bytes:
        size = self._library.call("TF_TensorByteSize", tensor) or 0
        return ctypes.string_at(self._library.call("TF_TensorData", tensor) or 0, size)


def _converted(argument: object) -> object:
    # Pointers and sizes are 64 bits wide; what is shorter is taken from their lower part.
    return ctypes.c_void_p(argument) if isinstance(argument, int) else argument
