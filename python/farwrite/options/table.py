"""Every option of Farwrite: the core's rows (src/core/option_table.cc), and those of the others.

docs/reference/options.md and ``farwrite options`` are made from it.

An option of `farwrite.Device` is a keyword there, or an environment variable where the keyword is
not given. The plug-in for TensorFlow has no keywords: it reads the environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from farwrite import _farwrite
from farwrite.options.option import Kind, Option, Place


def _from_core(row: dict[str, Any]) -> Option:
    kind = Kind(row.pop("kind"))
    default = row.pop("default")
    return Option(
        kind=kind,
        places=tuple(map(Place, row.pop("places"))),
        choices=tuple(row.pop("choices")),
        default=None if default == "none" else default,
        **row,
    )


DEVICE_OPTIONS: tuple[Option, ...] = tuple(map(_from_core, _farwrite.device_options()))
"""The keywords of `farwrite.Device`."""

# fmt: off
OPTIONS: tuple[Option, ...] = (
    *DEVICE_OPTIONS,
    Option(
        "--log", "FARWRITE_LOG", (Place.PROCESS, Place.CLI), Kind.CHOICE, "warning",
        "What goes to standard error. `farwrite.set_log_level()` overrides it.",
        ("off", "error", "warning", "info", "debug"),
    ),
    Option(
        "--trace", "FARWRITE_TRACE", (Place.PROCESS, Place.CLI), Kind.FILE, None,
        "Write every transfer to this file, for ui.perfetto.dev. %p becomes the process id;"
        " without %p, .<pid> is appended. The commands' --trace joins the files of all processes"
        " into one.",
    ),
    Option(
        "", "FARWRITE_TOKEN_FILE", (Place.PROCESS,), Kind.FILE,
        "($XDG_RUNTIME_DIR/farwrite/token)",
        "The file of the default token; ~/.cache/farwrite/token without XDG_RUNTIME_DIR. The first"
        " device makes it. A file that this variable names is valid at every address: for"
        " containers and Slurm.",
    ),
    Option(
        "", "FARWRITE_COPY_KERNEL", (Place.PROCESS,), Kind.TEXT, "(fastest)",
        "The copy kernel; `farwrite info` lists them. A device does not open if this CPU lacks the"
        " kernel.",
    ),
    *map(_from_core, _farwrite.plugin_options()),
    *map(_from_core, _farwrite.grpc_options()),
    Option(
        "", "FARWRITE_CACHE", (Place.PLUGIN, Place.CLI), Kind.FILE, "($XDG_CACHE_HOME/farwrite)",
        "The folder of compiled plug-ins; ~/.cache/farwrite without XDG_CACHE_HOME.",
    ),
    Option(
        "", "CXX", (Place.PLUGIN, Place.CLI), Kind.TEXT, "(found)",
        "The compiler of the plug-in.",
    ),
    Option(
        "", "FARWRITE_CXXFLAGS", (Place.PLUGIN, Place.CLI), Kind.TEXT, None,
        "More flags for compiling the plug-in.",
    ),
    Option(
        "", "FARWRITE_JOBS", (Place.PLUGIN, Place.CLI), Kind.COUNT, "(CPUs and memory)",
        "How many files of the plug-in are compiled at once.",
    ),
    Option(
        "-DFARWRITE_PYTHON", "", (Place.BUILD,), Kind.SWITCH, False,
        "CMake: build the Python extension module.",
    ),
    Option(
        "-DFARWRITE_TESTS", "", (Place.BUILD,), Kind.SWITCH, False,
        "CMake: build the C++ tests.",
    ),
    Option(
        "-DFARWRITE_SANITIZE", "", (Place.BUILD,), Kind.TEXT, None,
        "CMake: the value of -fsanitize=.",
    ),
    Option(
        "-DFARWRITE_FUZZ", "", (Place.BUILD,), Kind.SWITCH, False,
        "CMake: build the libFuzzer programs; needs clang.",
    ),
    Option(
        "", "FARWRITE_DEBS", (Place.BUILD,), Kind.FILE, ".cache/debs",
        "The folder into which tools/fetch_debs.sh unpacks packages.",
    ),
    Option(
        "", "FARWRITE_DEBIAN", (Place.BUILD,), Kind.TEXT, None,
        "The mirror of Debian from which tools/fetch_debs.sh --suite takes another release.",
    ),
    Option(
        "", "FARWRITE_SOFTROCE", (Place.BUILD,), Kind.FILE, ".cache/softroce",
        "The folder in which make verbs-test keeps what its guests boot.",
    ),
    Option(
        "", "FARWRITE_ADVERSARY_SEED", (Place.TESTS,), Kind.COUNT, None,
        "Run the adversary's tests with this seed alone.",
    ),
    Option(
        "", "FARWRITE_TEST_VERBS", (Place.TESTS,), Kind.CHOICE, "software",
        "real: the C++ tests of verbs use the machine's adapter.",
        ("software", "real"),
    ),
    Option(
        "", "FARWRITE_ADVERSARY_SEEDS", (Place.TESTS,), Kind.COUNT, "(each test's own)",
        "How many seeds the adversary's tests try.",
    ),
)
"""Every option."""

# fmt: on
HEADERS = ("option", "environment", "where", "type", "default", "meaning")


def find_option(name: str) -> Option:
    """Find the option with this keyword, or this name on the command line."""
    (option,) = (option for option in OPTIONS if option.name == name)
    return option


def row(option: Option) -> tuple[str, ...]:
    """Give the cells of one row, as text, in the order of `HEADERS`."""
    return (
        option.name,
        option.variable,
        ", ".join(place.value for place in option.places),
        option.shown_type(),
        option.shown_default(),
        option.meaning,
    )


def rows() -> Iterator[tuple[str, ...]]:
    """Give the rows of the table."""
    return map(row, OPTIONS)
