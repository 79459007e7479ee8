"""Every option of Farwrite, in one table.

docs/reference/options.md and ``farwrite options`` are made of it.

An option of `farwrite.Device` is a keyword there, or an environment variable where the keyword is
not given. The plug-in for TensorFlow has no keywords: it reads the environment.
"""

from __future__ import annotations

from collections.abc import Iterator

from farwrite.option import Kind, Option, Place

_DEVICE = (Place.DEVICE,)
_BOTH = (Place.DEVICE, Place.PLUGIN)
_MIB, _GIB = 2**20, 2**30

# fmt: off
DEVICE_OPTIONS: tuple[Option, ...] = (
    Option(
        "listen", "FARWRITE_LISTEN", _BOTH, Kind.ENDPOINT, "127.0.0.1:0",
        "Where peers reach the device; port 0 picks a free one. The plug-in's default is the host"
        " of the task's own address in its cluster.",
    ),
    Option(
        "port", "", _DEVICE, Kind.COUNT, None,
        'Short for listen="127.0.0.1:port".',
    ),
    Option(
        "fabrics", "FARWRITE_FABRICS", _DEVICE, Kind.NAMES, ("shm", "verbs", "tcp"),
        "Fabrics the device may use, best first. One forces it: a peer that cannot use it is an"
        " error, never a silent fallback.",
    ),
    Option(
        "token", "FARWRITE_TOKEN", _BOTH, Kind.TOKEN, "(this user's cookie)",
        "Secret that all peers share and prove to each other before any memory is exposed. The"
        " cookie is in a file that only this user can read, and holds on the loopback: at other"
        " addresses a device needs a secret, or none (token=None), which admits every process that"
        " reaches it. There the plug-in's default is none.",
    ),
    Option(
        "encrypt", "FARWRITE_ENCRYPT", _BOTH, Kind.SWITCH, False,
        "Encrypt what leaves the host, by TLS 1.3 under the token, which it needs. On both sides;"
        " shm stays as it is. Needs OpenSSL 3 (libssl.so.3).",
    ),
    Option(
        "pollers", "FARWRITE_POLLERS", _DEVICE, Kind.COUNT, 1,
        "Threads that make progress, each the owner of one completion queue; 1 to 64.",
    ),
    Option(
        "lanes", "FARWRITE_LANES", _DEVICE, Kind.COUNT, 1,
        "Lanes (queue pairs) for each peer, spread over the pollers; 1 to 64. Both sides use the"
        " smaller.",
    ),
    Option(
        "spin", "FARWRITE_SPIN", _DEVICE, Kind.SECONDS, 20e-6,
        "How long a waiting thread polls before it blocks.",
    ),
    Option(
        "send_limit", "FARWRITE_SEND_LIMIT", _BOTH, Kind.SIZE, 8 * _GIB,
        "Memory that peers may read, all peers together; 2M or more.",
    ),
    Option(
        "send_limit_per_peer", "FARWRITE_SEND_LIMIT_PER_PEER", _DEVICE, Kind.SIZE, "(send_limit)",
        "Of this, what may be leased to one peer.",
    ),
    Option(
        "receive_limit", "FARWRITE_RECEIVE_LIMIT", _BOTH, Kind.SIZE, 8 * _GIB,
        "Memory that peers may write, all peers together; 2M or more.",
    ),
    Option(
        "receive_limit_per_peer", "FARWRITE_RECEIVE_LIMIT_PER_PEER", _DEVICE, Kind.SIZE,
        "(receive_limit)",
        "The same for one peer.",
    ),
    Option(
        "segment_bytes", "FARWRITE_SEGMENT_BYTES", _DEVICE, Kind.SIZE, 64 * _MIB,
        "Memory that peers may read grows by this much.",
    ),
    Option(
        "receive_segment_bytes", "FARWRITE_RECEIVE_SEGMENT_BYTES", _DEVICE, Kind.SIZE, 8 * _MIB,
        "Memory that one peer may write grows by this much.",
    ),
    Option(
        "huge_pages", "FARWRITE_HUGE_PAGES", _DEVICE, Kind.CHOICE, "transparent",
        "Huge pages for that memory; explicit fails if the machine has none reserved.",
        ("off", "transparent", "explicit"),
    ),
    Option(
        "prefault", "FARWRITE_PREFAULT", _DEVICE, Kind.SWITCH, True,
        "Take pages from the kernel when memory grows, not at its first use, which is far slower.",
    ),
    Option(
        "numa_node", "FARWRITE_NUMA_NODE", _DEVICE, Kind.COUNT, None,
        "Bind the memory to this node; -1, or none, leaves placement to the kernel.",
    ),
    Option(
        "detection_time", "FARWRITE_DETECTION_TIME", _DEVICE, Kind.SECONDS, 5.0,
        "A peer that says nothing for this long is silent: quarantined, not dead.",
    ),
    Option(
        "handshake_timeout", "FARWRITE_HANDSHAKE_TIMEOUT", _DEVICE, Kind.SECONDS, 5.0,
        "Bound on one connection's handshake, from either side.",
    ),
    Option(
        "data_port", "FARWRITE_DATA_PORT", _BOTH, Kind.COUNT, 0,
        "Where the tcp fabric listens, on the host of listen; 0 picks a free port. For firewalls.",
    ),
    Option(
        "host_timeout", "FARWRITE_HOST_TIMEOUT", _DEVICE, Kind.SECONDS, 60.0,
        "A peer is given up if the network brings no acknowledgement from its host for this long.",
    ),
    Option(
        "verbs_device", "FARWRITE_VERBS_DEVICE", _BOTH, Kind.TEXT, None,
        "The RDMA device of the verbs fabric, as ibv_devices names it; none takes the best.",
    ),
    Option(
        "verbs_port", "FARWRITE_VERBS_PORT", _BOTH, Kind.COUNT, None,
        "Its port, 1 or more.",
    ),
    Option(
        "verbs_gid_index", "FARWRITE_VERBS_GID_INDEX", _BOTH, Kind.COUNT, None,
        "With RoCE, the place in the port's GID table: the device uses the address that stands"
        " there.",
    ),
    Option(
        "verbs_send_queue_depth", "FARWRITE_VERBS_SEND_QUEUE_DEPTH", _BOTH, Kind.COUNT, 128,
        "Work requests that a lane may have under way; fewer if the adapter allows fewer.",
    ),
    Option(
        "verbs_receive_credits", "FARWRITE_VERBS_RECEIVE_CREDITS", _BOTH, Kind.COUNT, 64,
        "Notifications and messages that a peer may have sent on a lane before they are taken.",
    ),
    Option(
        "verbs_chunk_bytes", "FARWRITE_VERBS_CHUNK_BYTES", _BOTH, Kind.SIZE, _GIB,
        "The most that one work request carries; less if the port allows less.",
    ),
    Option(
        "verbs_signal_every", "FARWRITE_VERBS_SIGNAL_EVERY", _BOTH, Kind.COUNT, 16,
        "Of work requests that need not tell when they are done, every so many does.",
    ),
    Option(
        "verbs_inline_bytes", "FARWRITE_VERBS_INLINE_BYTES", _BOTH, Kind.SIZE, 128,
        "Writes up to this size travel inside their work request.",
    ),
    Option(
        "verbs_retry_count", "FARWRITE_VERBS_RETRY_COUNT", _BOTH, Kind.COUNT, 7,
        "How often the adapter repeats what the peer's does not acknowledge, 0 to 7.",
    ),
    Option(
        "verbs_rnr_retry_count", "FARWRITE_VERBS_RNR_RETRY_COUNT", _BOTH, Kind.COUNT, 7,
        "How often it repeats what finds no receive at the peer, 0 to 7; 7 is for ever.",
    ),
    Option(
        "verbs_relaxed_ordering", "FARWRITE_VERBS_RELAXED_ORDERING", _BOTH, Kind.SWITCH,
        "(where it is safe)",
        "Relaxed PCIe ordering of memory that peers write.",
    ),
    Option(
        "verbs_use_immediate", "FARWRITE_VERBS_USE_IMMEDIATE", _BOTH, Kind.SWITCH, True,
        "Let notifications ride on writes; off does as iWARP has to. For measuring what it saves.",
    ),
    Option(
        "metrics", "FARWRITE_METRICS", _BOTH, Kind.ENDPOINT, None,
        "Serve GET /metrics there, in the Prometheus text format, for all devices of the process."
        " A port alone means 127.0.0.1. From the environment, an address that is taken is a"
        " warning, so that child processes may inherit it.",
    ),
)
"""The keywords of `farwrite.Device`."""

OPTIONS: tuple[Option, ...] = (
    *DEVICE_OPTIONS,
    Option(
        "--log", "FARWRITE_LOG", (Place.PROCESS, Place.CLI), Kind.CHOICE, "warning",
        "What goes to standard error. `farwrite.set_log_level()` overrides it.",
        ("off", "error", "warning", "info", "debug"),
    ),
    Option(
        "--trace", "FARWRITE_TRACE", (Place.PROCESS, Place.CLI), Kind.FILE, None,
        "Write what every transfer did there, for ui.perfetto.dev. %p becomes the process id;"
        " without one, .<pid> is appended. The commands' --trace joins the files of all processes"
        " into one.",
    ),
    Option(
        "", "FARWRITE_TOKEN_FILE", (Place.PROCESS,), Kind.FILE,
        "($XDG_RUNTIME_DIR/farwrite/token)",
        "The file of the default token; ~/.cache/farwrite/token without XDG_RUNTIME_DIR. The first"
        " device makes it. A file that this variable names holds at every address: for containers"
        " and Slurm.",
    ),
    Option(
        "", "FARWRITE_COPY_KERNEL", (Place.PROCESS,), Kind.TEXT, "(fastest)",
        "The copy kernel; `farwrite info` lists them. No device opens with one that this CPU"
        " lacks.",
    ),
    Option(
        "", "FARWRITE_FABRIC", (Place.PLUGIN,), Kind.TEXT, "(as for the device)",
        "The one fabric that the plug-in's device may use, forced.",
    ),
    Option(
        "--allocation", "FARWRITE_TF_ALLOCATION", (Place.PLUGIN, Place.CLI), Kind.CHOICE,
        "unified",
        "unified: large tensors are allocated in registered memory. traced: those are whose"
        " operations were seen to make tensors that are sent. off: they are staged by one copy.",
        ("unified", "traced", "off"),
    ),
    Option(
        "", "FARWRITE_TF_TRACING", (Place.PLUGIN,), Kind.CHOICE, "auto",
        "always: with traced, tracing never ends. For measuring what it costs.",
        ("auto", "always"),
    ),
    Option(
        "", "FARWRITE_TF_LANDING", (Place.PLUGIN,), Kind.SWITCH, True,
        "Whether tensors of a known size are written into memory that their receiver has waiting,"
        " where memory cannot be mapped. off: each is offered, and read.",
    ),
    Option(
        "", "FARWRITE_TF_SUMMARY", (Place.PLUGIN,), Kind.FILE, None,
        "Each process writes its counters to FILE.<pid>.json, and its edges to FILE.<pid>.edges,"
        " when it exits.",
    ),
    Option(
        "", "FARWRITE_CACHE", (Place.PLUGIN, Place.CLI), Kind.FILE, "($XDG_CACHE_HOME/farwrite)",
        "The folder in which compiled plug-ins are kept; ~/.cache/farwrite without XDG_CACHE_HOME.",
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
        "Where tools/fetch_debs.sh unpacks packages.",
    ),
    Option(
        "", "FARWRITE_SOFTROCE", (Place.BUILD,), Kind.FILE, ".cache/softroce",
        "Where make verbs-test keeps what its guests boot.",
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


def rows() -> Iterator[tuple[str, ...]]:
    """Give the table's cells, as text, in the order of `HEADERS`."""
    for option in OPTIONS:
        yield (
            option.name,
            option.variable,
            ", ".join(place.value for place in option.places),
            option.shown_type(),
            option.shown_default(),
            option.meaning,
        )
