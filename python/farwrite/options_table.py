"""Every option of Farwrite, in one table.

docs/reference/options.md and ``farwrite options`` are made from it.

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
        "The address at which peers reach the device. Port 0 picks a free port. In the plug-in the"
        " default is the host of the task's own address in its cluster.",
    ),
    Option(
        "port", "", _DEVICE, Kind.COUNT, None,
        'Short for listen="127.0.0.1:port".',
    ),
    Option(
        "name", "FARWRITE_NAME", _DEVICE, Kind.TEXT, None,
        "The name of the device in the messages of its peers, beside its endpoint; at most 255"
        " bytes. The plug-in's device has the name of its task.",
    ),
    Option(
        "fabrics", "FARWRITE_FABRICS", _BOTH, Kind.NAMES, ("shm", "verbs", "tcp"),
        "The fabrics that the device may use, best first. One fabric alone is forced: a peer that"
        " cannot use it is an error, never a silent fallback.",
    ),
    Option(
        "token", "FARWRITE_TOKEN", (*_BOTH, Place.GRPC), Kind.TOKEN, "(this user's cookie)",
        "The secret that all peers share and prove to each other before any memory is exposed. The"
        " cookie is in a file that only this user can read, and is valid on the loopback. At other"
        " addresses a device needs a secret, or token=None, which admits every process that"
        " reaches the address. There the plug-in's default is no token.",
    ),
    Option(
        "encrypt", "FARWRITE_ENCRYPT", _BOTH, Kind.SWITCH, False,
        "Encrypt what leaves the host, by TLS 1.3 under the token, which encryption needs. Set it"
        " on both sides. Shared memory is not encrypted. Needs OpenSSL 3 (libssl.so.3).",
    ),
    Option(
        "pollers", "FARWRITE_POLLERS", _DEVICE, Kind.COUNT, 1,
        "The number of threads that make progress, each the owner of one completion queue; 1 to"
        " 64.",
    ),
    Option(
        "lanes", "FARWRITE_LANES", _DEVICE, Kind.COUNT, 1,
        "The number of lanes (queue pairs) for each peer, spread over the pollers; 1 to 64. Both"
        " sides use the smaller number.",
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
        "The part of send_limit that may be leased to one peer.",
    ),
    Option(
        "receive_limit", "FARWRITE_RECEIVE_LIMIT", _BOTH, Kind.SIZE, 8 * _GIB,
        "Memory that peers may write, all peers together; 2M or more.",
    ),
    Option(
        "receive_limit_per_peer", "FARWRITE_RECEIVE_LIMIT_PER_PEER", _DEVICE, Kind.SIZE,
        "(receive_limit)",
        "The part of receive_limit that one peer may write.",
    ),
    Option(
        "segment_bytes", "FARWRITE_SEGMENT_BYTES", _DEVICE, Kind.SIZE, 64 * _MIB,
        "The step by which memory that peers may read grows.",
    ),
    Option(
        "receive_segment_bytes", "FARWRITE_RECEIVE_SEGMENT_BYTES", _DEVICE, Kind.SIZE, 8 * _MIB,
        "The step by which memory that one peer may write grows.",
    ),
    Option(
        "huge_pages", "FARWRITE_HUGE_PAGES", _DEVICE, Kind.CHOICE, "transparent",
        "Huge pages for memory that peers may read or write. explicit fails if the machine has"
        " none reserved.",
        ("off", "transparent", "explicit"),
    ),
    Option(
        "prefault", "FARWRITE_PREFAULT", _DEVICE, Kind.SWITCH, True,
        "Take pages from the kernel when memory grows. off takes them at their first use, which is"
        " far slower.",
    ),
    Option(
        "numa_node", "FARWRITE_NUMA_NODE", _DEVICE, Kind.COUNT, None,
        "Bind the memory to this NUMA node. -1, or none, leaves placement to the kernel.",
    ),
    Option(
        "detection_time", "FARWRITE_DETECTION_TIME", _DEVICE, Kind.SECONDS, 5.0,
        "A peer that sends nothing for this long is silent. Memory that it may write is"
        " quarantined, and the peer does not count as dead.",
    ),
    Option(
        "handshake_timeout", "FARWRITE_HANDSHAKE_TIMEOUT", _DEVICE, Kind.SECONDS, 5.0,
        "The bound on the handshake of one connection, on either side.",
    ),
    Option(
        "data_port", "FARWRITE_DATA_PORT", _BOTH, Kind.COUNT, 0,
        "The port of the tcp fabric, on the host of listen; 0 picks a free port. Set it for"
        " firewalls.",
    ),
    Option(
        "host_timeout", "FARWRITE_HOST_TIMEOUT", _DEVICE, Kind.SECONDS, 60.0,
        "A peer counts as dead if the network brings no acknowledgement from its host for this"
        " long.",
    ),
    Option(
        "verbs_device", "FARWRITE_VERBS_DEVICE", _BOTH, Kind.TEXT, None,
        "The RDMA device of the verbs fabric, by its name in ibv_devices; none takes the best"
        " device.",
    ),
    Option(
        "verbs_port", "FARWRITE_VERBS_PORT", _BOTH, Kind.COUNT, None,
        "The port of the RDMA device, 1 or more.",
    ),
    Option(
        "verbs_gid_index", "FARWRITE_VERBS_GID_INDEX", _BOTH, Kind.COUNT, None,
        "With RoCE, the index in the port's GID table. The device uses the address in that entry.",
    ),
    Option(
        "verbs_send_queue_depth", "FARWRITE_VERBS_SEND_QUEUE_DEPTH", _BOTH, Kind.COUNT, 128,
        "The work requests that a lane may have under way; fewer if the adapter allows fewer.",
    ),
    Option(
        "verbs_receive_credits", "FARWRITE_VERBS_RECEIVE_CREDITS", _BOTH, Kind.COUNT, 64,
        "The notifications and messages that a peer may have sent on a lane before they are taken.",
    ),
    Option(
        "verbs_chunk_bytes", "FARWRITE_VERBS_CHUNK_BYTES", _BOTH, Kind.SIZE, _GIB,
        "The most that one work request carries; less if the port allows less.",
    ),
    Option(
        "verbs_signal_every", "FARWRITE_VERBS_SIGNAL_EVERY", _BOTH, Kind.COUNT, 16,
        "Of the work requests that need no completion, one in this many requests one.",
    ),
    Option(
        "verbs_inline_bytes", "FARWRITE_VERBS_INLINE_BYTES", _BOTH, Kind.SIZE, 128,
        "Writes up to this size travel inside their work request.",
    ),
    Option(
        "verbs_retry_count", "FARWRITE_VERBS_RETRY_COUNT", _BOTH, Kind.COUNT, 7,
        "How often the adapter repeats what the peer's adapter does not acknowledge, 0 to 7.",
    ),
    Option(
        "verbs_rnr_retry_count", "FARWRITE_VERBS_RNR_RETRY_COUNT", _BOTH, Kind.COUNT, 7,
        "How often the adapter repeats what finds no receive at the peer, 0 to 7; 7 is for ever.",
    ),
    Option(
        "verbs_relaxed_ordering", "FARWRITE_VERBS_RELAXED_ORDERING", _BOTH, Kind.SWITCH,
        "(where it is safe)",
        "Relaxed PCIe ordering of memory that peers write.",
    ),
    Option(
        "verbs_use_immediate", "FARWRITE_VERBS_USE_IMMEDIATE", _BOTH, Kind.SWITCH, True,
        "Notifications travel with writes. off uses the way that iWARP needs, to measure the"
        " difference.",
    ),
    Option(
        "metrics", "FARWRITE_METRICS", _BOTH, Kind.ENDPOINT, None,
        "Serve GET /metrics at this address, in the Prometheus text format, for all devices of the"
        " process. A port alone means 127.0.0.1. If the address comes from the environment and is"
        " taken, that is only a warning, so that child processes may inherit it.",
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
    Option(
        "--allocation", "FARWRITE_TF_ALLOCATION", (Place.PLUGIN, Place.CLI), Kind.CHOICE,
        "unified",
        "unified: large tensors are allocated in registered memory. traced: only tensors of"
        " operations that were seen to make tensors that are sent. off: tensors are staged by one"
        " copy.",
        ("unified", "traced", "off"),
    ),
    Option(
        "", "FARWRITE_TF_TRACING", (Place.PLUGIN,), Kind.CHOICE, "auto",
        "always: with traced, tracing never ends. Use it to measure the cost of tracing.",
        ("auto", "always"),
    ),
    Option(
        "", "FARWRITE_TF_LANDING", (Place.PLUGIN,), Kind.SWITCH, True,
        "Whether tensors of a known size are written into memory that their receiver has waiting,"
        " where memory cannot be mapped. off: each is offered, and read.",
    ),
    Option(
        "", "FARWRITE_TF_SUMMARY", (Place.PLUGIN,), Kind.FILE, None,
        "When it exits, each process writes its counters to FILE.<pid>.json and its edges to"
        " FILE.<pid>.edges.",
    ),
    Option(
        "", "FARWRITE_GRPC_FABRICS", (Place.GRPC,), Kind.TEXT, "shm,verbs",
        "The fabrics of gRPC's connections, best first. tcp is slower than gRPC's own TCP.",
    ),
    Option(
        "", "FARWRITE_GRPC_LISTEN", (Place.GRPC,), Kind.TEXT, "127.0.0.1:0",
        "Where the process is reached, as HOST:PORT. Connections to other hosts move to Farwrite"
        " only if it is an address that they reach; then a token is needed as well.",
    ),
    Option(
        "", "FARWRITE_GRPC_ANY_PEER", (Place.GRPC,), Kind.SWITCH, False,
        "Peers on other hosts need no token: as open as gRPC without TLS.",
    ),
    Option(
        "--require", "FARWRITE_GRPC_REQUIRE", (Place.GRPC, Place.CLI), Kind.SWITCH, False,
        "A connection that cannot move to Farwrite fails instead of staying on TCP.",
    ),
    Option(
        "", "FARWRITE_GRPC_SPIN_US", (Place.GRPC,), Kind.COUNT, 50,
        "How long a thread polls before it waits for a completion queue's events, in microseconds,"
        " if something came for that queue in the last 2 ms.",
    ),
    Option(
        "", "FARWRITE_GRPC_COPY", (Place.GRPC,), Kind.SWITCH, False,
        "All bytes are copied through rings: the baseline with private buffers of the benchmarks."
        " Both ends need it.",
    ),
    Option(
        "", "FARWRITE_GRPC_STATS", (Place.GRPC,), Kind.FILE, None,
        "At its exit, each process appends a line of JSON with its counts.",
    ),
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
