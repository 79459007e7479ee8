"""The one table of options: complete, right about defaults, and true about the environment."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import farwrite as fw
from farwrite import _farwrite, cli
from farwrite.options.device import device_options, given_options
from farwrite.options.option import Kind, Option, Place
from farwrite.options.table import DEVICE_OPTIONS, OPTIONS

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).resolve().parent.parent.parent

# Names that look like variables and are none: macros, CMake's own, and what tests make up.
INTERNAL = {
    "FARWRITE_GRPC_SANITIZED",  # of tests/python/grpc: sanitized.py
    "FARWRITE_EVERY_FABRIC_INSIDE",
    "FARWRITE_FABRICS_OF_PROGRAMS",
    "FARWRITE_BEGIN",
    "FARWRITE_END",
    "FARWRITE_INTERFACE",
    "FARWRITE_LIBRARY",
    "FARWRITE_TEST_HEADERS",  # of CMake
    "FARWRITE_PLUGIN_FUZZ",  # of CMake
    "FARWRITE_PLUGIN_PYTHON",  # of CMake
    "FARWRITE_SANITIZER_WARNINGS",  # of CMake
    "FARWRITE_SOURCE_DIR",  # a macro of tests/fault
    "FARWRITE_UNITY",  # of CMake
    "FARWRITE_ZIG_TARGET",  # of CMake, for `make wheels`
    "FARWRITE_ZIG_CC",  # of CMake, for tools/run_aarch64_tests.py
    "FARWRITE_ZIG_CXX",  # of CMake, for `make wheels`
    "FARWRITE_ZIG",  # of CMake, for `make wheels`
    "FARWRITE_STUB",  # of CMake, for `make wheels`
    "FARWRITE_REQUIRE_VERBS",  # of CMake, for `make wheels`
    "FARWRITE_STAND_IN",  # a macro of cmake/gcc_s.cc
    "FARWRITE_ALL_IN_PLACE",
    "FARWRITE_ANSWER",
    "FARWRITE_BENCH_WIDEST",  # a macro of bench/src/box.cc
    "FARWRITE_RPC_OVER_FABRIC_PEERS",  # of farwrite_experiments.rpc_over_fabric
    "FARWRITE_RPC_OVER_FABRIC_SERVER",  # a name in TensorFlow's registry
    "FARWRITE_BENCH_PORTS",  # of farwrite-bench: farwrite_bench.cluster.process.free_ports
    "FARWRITE_BINDINGS",
    "FARWRITE_BOX_INLINE",
    "FARWRITE_BOX_KERNEL",
    "FARWRITE_BOX_LOOPS",
    "FARWRITE_BOX_MEMBER",
    "FARWRITE_BOX_TARGET",
    "FARWRITE_BOX_UNCHECKED_RACE",
    "FARWRITE_CHECK_LOCK_ORDER",  # a macro of cmake/sanitizer.cmake
    "FARWRITE_CUDA_DOUBLE",  # a macro of the C++ tests
    "FARWRITE_CUDA_FUNCTIONS",
    "FARWRITE_DECLARE",
    "FARWRITE_CUDA_LIBRARY",  # of tests: their double of the driver
    "FARWRITE_TEST_GPU",  # of tests: tests/python/cuda_double.py
    "FARWRITE_CLANG",
    "FARWRITE_CM_FUNCTIONS",
    "FARWRITE_COUNTERS",  # a macro of src/core/counter_table.cc
    "FARWRITE_ENCRYPTED_TOO",
    "FARWRITE_EVERY_FABRIC",
    "FARWRITE_FAULT_ROLE",
    "FARWRITE_FIND",
    "FARWRITE_FUZZ_FOLDER",
    "FARWRITE_GOOGLETEST",
    "FARWRITE_GRPC",  # of tools/fetch_grpc.sh: the folder of gRPC's source
    "FARWRITE_GRPC_LOADED",  # set by farwrite run, and the next one
    "FARWRITE_GRPC_PRELOADED",
    "FARWRITE_HAVE_VERBS",
    "FARWRITE_IN_PLACE",
    "FARWRITE_LIBRARIES",
    "FARWRITE_MEMBER",
    "FARWRITE_PLUGIN_COUNTERS",
    "FARWRITE_PLUGIN_DECLARE",
    "FARWRITE_PLUGIN_GAUGES",
    "FARWRITE_PLUGIN_PRINT",
    "FARWRITE_PLUGIN_RESET",
    "FARWRITE_PLUGIN_ROW",
    "FARWRITE_REQUIRE",
    "FARWRITE_REQUIRE_OK",
    "FARWRITE_RETURN_IF_ERROR",
    "FARWRITE_RUN",  # set by farwrite run for its processes, and the next one
    "FARWRITE_RUN_OR_GRPC",
    "FARWRITE_SERVER",
    "FARWRITE_SESSION",
    "FARWRITE_SOURCES",
    "FARWRITE_TENSORFLOW_VERSION",
    "FARWRITE_TEST_LATE",
    "FARWRITE_VERBS_FUNCTIONS",
    "FARWRITE_VERBS_INCLUDE",
    "FARWRITE_VERBS_OPTIONAL_FUNCTIONS",
    "FARWRITE_VERBS_TOO",
    "FARWRITE_VERSION",
    "FARWRITE_VERSION_LINE",
}

# Fields of VerbsOptions that a Python program cannot set: for the C++ tests.
VERBS_NOT_IN_PYTHON = {"library", "assume_data_in_order"}


def _fields(struct: str) -> set[str]:
    header = (ROOT / "include/farwrite/options.h").read_text()
    body = header[header.index(f"struct {struct} {{") :]
    body = re.sub(r"//[^\n]*", "", body[: body.index("\n};")])
    return set(re.findall(r"[\w>*&] (\w+)(?: = [^;]*)?;", body))


def _keywords() -> set[str]:
    return set(inspect.signature(fw.Device).parameters)


def _defaults() -> dict[str, object]:
    return {option.name: option.default for option in DEVICE_OPTIONS}


def test_every_keyword_of_a_device_is_in_the_table() -> None:
    assert _keywords() == {option.fabric or option.name for option in DEVICE_OPTIONS}
    fields = {f"verbs.{name}" for name in inspect.signature(fw.VerbsOptions).parameters}
    assert fields == {option.name for option in DEVICE_OPTIONS if option.fabric}


def test_every_keyword_of_a_device_is_in_its_docstring() -> None:
    for option in DEVICE_OPTIONS:
        kind = fw.VerbsOptions if option.fabric else fw.Device
        assert f"\n{option.field} : " in (inspect.getdoc(kind) or "")
    assert "\nverbs : " in (inspect.getdoc(fw.Device) or "")


def test_every_field_of_device_options_is_in_the_table() -> None:
    fields = _fields("DeviceOptions")
    assert {"listen", "numa_node", "fabrics", "token", "verbs"} <= fields
    verbs = {f"verbs.{field}" for field in _fields("VerbsOptions") - VERBS_NOT_IN_PYTHON}
    assert {"verbs.device", "verbs.relaxed_ordering"} <= verbs
    names = {option.name for option in DEVICE_OPTIONS} - {"port", "metrics"}
    assert names == (fields - {"verbs", "tcp"}) | verbs | _fields("TcpOptions")


def test_defaults_are_the_cores() -> None:
    core = _farwrite.DeviceOptions()
    special = {"port": None, "token": "(this user's cookie)", "metrics": None, "name": None,
               "port_range": None,
               "verbs.device": None, "verbs.port": None, "verbs.gid_index": None,
               "numa_node": "(the adapter's)",
               "verbs.relaxed_ordering": "(where it is safe)",
               "send_limit_per_peer": "(send_limit)",
               "receive_limit_per_peer": "(receive_limit)"}  # fmt: skip
    for name, default in _defaults().items():
        if name in special:
            assert default == special[name], name
        elif name == "fabrics":
            assert list(default) == core.fabrics  # type: ignore[call-overload]
        else:
            assert getattr(core, name) == default, name
    assert (core.name, core.port_range, core.numa_node) == ("", "", -2)
    assert [getattr(core, f"verbs.{name}") for name in ("device", "port")] == ["", 0]
    assert [getattr(core, f"verbs.{name}") for name in ("gid_index", "relaxed_ordering")] == [
        -1,
        None,
    ]
    assert core.send_limit_per_peer == core.send_limit
    assert core.receive_limit_per_peer == core.receive_limit


def test_every_variable_that_occurs_is_in_the_table() -> None:
    listed = {option.variable for option in OPTIONS}
    listed |= {option.name.removeprefix("-D") for option in OPTIONS if Place.BUILD in option.places}
    found: dict[str, str] = {}
    for folder in ("src", "python", "bench", "tools", "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".cc", ".h", ".c", ".py", ".sh", ".txt", ".cmake"}:
                for name in re.findall(r"\bFARWRITE_[A-Z0-9_]*[A-Z0-9]\b", path.read_text()):
                    found[name] = str(path)
    unknown = {name: path for name, path in found.items() if name not in listed | INTERNAL}
    assert not unknown, "give it a row in options/table.py, or call it internal above"
    assert "FARWRITE_LOG" in found
    assert not INTERNAL & listed


def test_names_and_variables_are_unique() -> None:
    for names in ([o.name for o in OPTIONS if o.name], [o.variable for o in OPTIONS if o.variable]):
        assert len(set(names)) == len(names)
    assert all(option.name or option.variable for option in OPTIONS)


def test_a_variable_is_named_after_its_keyword() -> None:
    for option in DEVICE_OPTIONS:
        assert option.variable == (
            "" if option.name == "port" else f"FARWRITE_{option.name.upper().replace('.', '_')}"
        )


# For each option that has a variable: its text, and what the core then has.
TEXTS: dict[str, tuple[str, object]] = {
    "listen": ("127.0.0.2:0", "127.0.0.2:0"),
    "port_range": ("7000-7099", "7000-7099"),
    "name": ("worker 1", "worker 1"),
    "fabrics": ("shm, tcp", ["shm", "tcp"]),
    "token": ("secret", None),
    "pollers": ("2", 2),
    "lanes": ("3", 3),
    "spin": ("100us", 1e-4),
    "send_limit": ("512M", 512 << 20),
    "send_limit_per_peer": ("64K", 64 << 10),
    "receive_limit": ("1G", 1 << 30),
    "receive_limit_per_peer": ("4MiB", 4 << 20),
    "segment_bytes": ("4194304", 4 << 20),
    "receive_segment_bytes": ("2M", 2 << 20),
    "huge_pages": ("off", "off"),
    "prefault": ("off", False),
    "numa_node": ("0", 0),
    "memory_idle_time": ("5", 5.0),
    "detection_time": ("2.5", 2.5),
    "handshake_timeout": ("300ms", 0.3),
    "data_port": ("7000", 7000),
    "host_timeout": ("90s", 90.0),
    "encrypt": ("yes", True),
    "verbs.device": ("mlx5_0", "mlx5_0"),
    "verbs.port": ("2", 2),
    "verbs.gid_index": ("3", 3),
    "verbs.send_queue_depth": ("256", 256),
    "verbs.receive_credits": ("32", 32),
    "verbs.chunk_bytes": ("64M", 64 << 20),
    "verbs.signal_every": ("4", 4),
    "verbs.inline_bytes": ("0", 0),
    "verbs.retry_count": ("0", 0),
    "verbs.rnr_retry_count": ("6", 6),
    "verbs.relaxed_ordering": ("off", False),
    "verbs.use_immediate": ("no", False),
}


def _not_given() -> dict[str, object]:
    return {**dict.fromkeys(_keywords()), "token": fw.DEFAULT_TOKEN}


def _core(**keywords: object) -> _farwrite.DeviceOptions:
    return device_options(given_options({**_not_given(), **keywords}))


def _with(option: Option, value: Any) -> _farwrite.DeviceOptions:
    if option.fabric:
        return _core(verbs=fw.VerbsOptions(**{option.field: value}))
    return _core(**{option.name: value})


@pytest.mark.parametrize(
    "option",
    [o for o in DEVICE_OPTIONS if o.variable and o.name != "metrics"],
    ids=lambda o: o.name,
)
def test_a_variable_sets_its_option_and_a_keyword_beats_it(
    option: Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, value = TEXTS[option.name]
    monkeypatch.setenv(option.variable, text)
    if option.name == "token":
        assert given_options(_not_given())["token"].value == text
        assert given_options({**_not_given(), "token": None})["token"].value is None
        monkeypatch.setenv(option.variable, "none")
        assert given_options(_not_given())["token"].value is None
        monkeypatch.setenv(option.variable, "")
        assert "token" not in given_options(_not_given())
        return
    read = getattr(_core(), option.name)
    assert read == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value)
    monkeypatch.setenv(option.variable, "")
    default = getattr(_core(), option.name)
    assert default != read
    keyword = option.default if option.default not in (None, "(send_limit)") else 1
    if option.kind is Kind.TEXT:
        keyword = "rxe0"
    if option.kind is Kind.PORTS:
        keyword = "1-2"
    if isinstance(keyword, str) and keyword.startswith("("):
        keyword = 2 << 20 if option.kind is Kind.SIZE else 1
    monkeypatch.setenv(option.variable, text)
    given = getattr(_with(option, keyword), option.name)
    assert given == (list(keyword) if option.kind is Kind.NAMES else keyword)


@pytest.mark.parametrize(
    "option",
    [o for o in DEVICE_OPTIONS if o.kind in (Kind.SIZE, Kind.SECONDS)],
    ids=lambda o: o.name,
)
def test_a_keyword_takes_the_text_of_sizes_and_times(option: Option) -> None:
    text, value = TEXTS[option.name]
    assert getattr(_with(option, text), option.name) == pytest.approx(value, rel=1e-4)
    for wrong in ("much", "", "-1"):
        with pytest.raises(fw.InvalidArgument, match=option.name):
            _with(option, wrong)


def test_the_port_beats_the_variable_of_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARWRITE_LISTEN", "127.0.0.1:1")
    assert _core(port=7777).listen == "127.0.0.1:7777"


def test_a_limit_for_all_peers_is_one_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARWRITE_SEND_LIMIT", "4M")
    assert _core().send_limit_per_peer == 4 << 20


def test_a_device_takes_its_options_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARWRITE_SEND_LIMIT", "16M")
    monkeypatch.setenv("FARWRITE_TOKEN", "secret")
    with fw.Device(receive_limit=1 << 22) as device:
        assert device.stats().send.limit == 16 << 20
        assert device.stats().receive.limit == 1 << 22
        with fw.Device(token="another") as stranger, pytest.raises(fw.Unauthenticated):
            stranger.connect(device.endpoint)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("FARWRITE_LISTEN", "nowhere"),
        ("FARWRITE_FABRICS", "pigeon"),
        ("FARWRITE_FABRICS", ","),
        ("FARWRITE_LANES", "two"),
        ("FARWRITE_LANES", "0"),
        ("FARWRITE_LANES", "65"),
        ("FARWRITE_POLLERS", "1.5"),
        ("FARWRITE_SPIN", "soon"),
        ("FARWRITE_SPIN", "-1"),
        ("FARWRITE_SEND_LIMIT", "much"),
        ("FARWRITE_SEND_LIMIT", "0"),
        ("FARWRITE_SEND_LIMIT", "1"),
        ("FARWRITE_HUGE_PAGES", "enormous"),
        ("FARWRITE_PREFAULT", "maybe"),
        ("FARWRITE_NUMA_NODE", "-2"),
        ("FARWRITE_DETECTION_TIME", "nan"),
        ("FARWRITE_VERBS_PORT", "0"),
        ("FARWRITE_VERBS_GID_INDEX", "-1"),
        ("FARWRITE_VERBS_RETRY_COUNT", "8"),
        ("FARWRITE_VERBS_CHUNK_BYTES", "0"),
        ("FARWRITE_VERBS_RELAXED_ORDERING", "perhaps"),
        ("FARWRITE_METRICS", "nowhere"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(fw.InvalidArgument, match=variable):
        fw.Device()


def test_the_documents_are_what_the_tables_say() -> None:
    tool = ROOT / "tools/write_tables.py"
    ended = subprocess.run(
        [sys.executable, str(tool), "--check"], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr


def test_options_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARWRITE_TOKEN", "swordfish")
    monkeypatch.setenv("FARWRITE_LANES", "3")
    assert cli.main(["options"]) == 0
    printed = capsys.readouterr().out
    for option in OPTIONS:
        assert option.variable in printed
        assert option.name in printed
    assert "FARWRITE_LANES=3" in printed
    assert "swordfish" not in printed


@pytest.mark.parametrize(
    ("variable", "text", "reason"),
    [
        ("FARWRITE_LANES", "banana", r"'banana' is not a whole number from 1 to 64"),
        ("FARWRITE_FABRICS", "pigeon", r"is not a list of shm, verbs or tcp"),
        ("FARWRITE_FABRICS", "shm,shm", r"the fabric shm is named twice"),
        ("FARWRITE_METRICS", "nowhere", r"'nowhere' is not an address"),
        ("FARWRITE_LOG", "loud", r"FARWRITE_LOG=loud is not a log level"),
        ("FARWRITE_COPY_KERNEL", "quick", r"=quick is not a copy kernel of this machine"),
        ("FARWRITE_TOKEN_FILE", "here", r"does not have an absolute path"),
        ("FARWRITE_TOKEN_FILE", "/no/folder/token", r"cannot be created: No such file"),
        ("FARWRITE_TF_ALLOCATION", "all", r"=all is not unified, traced or off"),
        ("FARWRITE_GRPC_SPIN_US", "-1", r"=-1 is not a whole number from 0 to 10000"),
        ("FARWRITE_GRPC_FABRICS", "pigeon", r"=pigeon is not a list of shm, verbs or tcp"),
        ("FARWRITE_GRPC_LISTEN", "nowhere", r"=nowhere is not an address"),
        ("FARWRITE_TF_LANDING", "maybe", r"=maybe is not on or off"),
        ("FARWRITE_JOBS", "0", r"FARWRITE_JOBS=0 is not a whole number from 1 on"),
    ],
)
def test_a_value_that_the_library_refuses_is_shown_with_its_reason(
    variable: str,
    text: str,
    reason: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FARWRITE_POLLERS", "2")
    monkeypatch.setenv(variable, text)
    assert cli.main(["options"]) == 1
    printed = capsys.readouterr().out
    shown = rf"\n    {variable}={re.escape(text)}\n        refused: .*{reason}"
    assert re.search(shown, printed), printed
    assert printed.count("\n        refused: ") == 1
    assert cli.main(["options", "--json"]) == 1
    refused = {row["set"]: row["refused"] for row in json.loads(capsys.readouterr().out)}
    assert re.search(reason, refused[text])
    assert refused["2"] is None


def test_a_token_file_that_is_too_short_is_refused_and_a_missing_one_is_not_made(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    monkeypatch.setenv("FARWRITE_TOKEN_FILE", str(file))
    assert cli.main(["options"]) == 0
    assert not file.exists()
    file.write_text("short")
    file.chmod(0o600)
    assert cli.main(["options"]) == 1
    assert "holds 5 bytes, and a token has 32 to 4096" in capsys.readouterr().out


def test_options_are_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["options", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["environment"] for row in rows] == [option.variable for option in OPTIONS]
    (lanes,) = [row for row in rows if row["option"] == "lanes"]
    assert lanes["default"] == "1"
