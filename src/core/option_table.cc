#include "core/option_table.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

namespace farwrite::core {
namespace {

using enum OptionKind;

constexpr unsigned kDevice = kInDevice;
constexpr unsigned kBoth = kInDevice | kInPlugin;
constexpr std::int64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMillisecond = 1'000'000;

// The member that a path of pointers to members leads to.
template <auto... Members>
OptionField at(DeviceOptions& options) {
  return &(options.*....*Members);
}
template <auto Member>
constexpr auto kVerbs = &at<&DeviceOptions::verbs, Member>;

// clang-format off
constexpr std::array kDeviceOptions = {
    Option{"listen", "FARWRITE_LISTEN", kBoth, kEndpoint, at<&DeviceOptions::listen>,
           "The address at which peers reach the device. Port 0 picks a free port. In the plug-in"
           " the default is the host of the task's own address in its cluster."},
    Option{"port", "", kDevice, kCount, at<&DeviceOptions::listen, &Endpoint::port>,
           "Short for listen at 127.0.0.1:port.",
           {0, 65535}, "none"},
    Option{"port_range", "FARWRITE_PORT_RANGE", kBoth, kPorts, at<&DeviceOptions::port_range>,
           "The ports that port 0 picks from, in listen and in data_port. Set it for firewalls, with"
           " two ports or more for each device that peers of other hosts reach. Without it port 0"
           " picks a port that other programs seldom get from the kernel.",
           {}, "none"},
    Option{"name", "FARWRITE_NAME", kDevice, kText, at<&DeviceOptions::name>,
           "The name of the device in the messages of its peers, beside its endpoint; at most 255"
           " bytes. The plug-in's device has the name of its task.",
           {1, kMaxDeviceNameBytes}, "none"},
    Option{"fabrics", "FARWRITE_FABRICS", kBoth, kFabrics, at<&DeviceOptions::fabrics>,
           "The fabrics that the device may use, best first. One fabric alone is forced: a peer"
           " that cannot use it is an error, never a silent fallback."},
    Option{"token", "FARWRITE_TOKEN", kBoth | kInGrpc, kToken, at<&DeviceOptions::token>,
           "The secret that all peers share and prove to each other before any memory is exposed."
           " The cookie is in a file that only this user can read, and is valid on the loopback."
           " At other addresses a device needs a secret, or the token none, which admits every process"
           " that reaches the address. There the plug-in's default is no token.",
           {}, "(this user's cookie)"},
    Option{"encrypt", "FARWRITE_ENCRYPT", kBoth, kSwitch, at<&DeviceOptions::encrypt>,
           "Encrypt what leaves the host, by TLS 1.3 under the token, which encryption needs. Set"
           " it on both sides. Shared memory is not encrypted. Needs OpenSSL 3 (libssl.so.3)."},
    Option{"pollers", "FARWRITE_POLLERS", kDevice, kCount, at<&DeviceOptions::pollers>,
           "The number of threads that make progress, each the owner of one completion queue; 1 to"
           " 64.",
           {1, kMaxPollers}},
    Option{"lanes", "FARWRITE_LANES", kDevice, kCount, at<&DeviceOptions::lanes>,
           "The number of lanes (queue pairs) for each peer, spread over the pollers; 1 to 64."
           " Both sides use the smaller number.",
           {1, kMaxLanes}},
    Option{"spin", "FARWRITE_SPIN", kDevice, kSeconds, at<&DeviceOptions::spin>,
           "How long a waiting thread polls before it blocks."},
    Option{"send_limit", "FARWRITE_SEND_LIMIT", kBoth, kSize, at<&DeviceOptions::send_limit>,
           "Memory that peers may read, all peers together; 2M or more.",
           {kMinMemoryLimit}},
    Option{"send_limit_per_peer", "FARWRITE_SEND_LIMIT_PER_PEER", kDevice, kSize,
           at<&DeviceOptions::send_limit_per_peer>,
           "The part of send_limit that may be leased to one peer.",
           {1}, "(send_limit)"},
    Option{"receive_limit", "FARWRITE_RECEIVE_LIMIT", kBoth, kSize,
           at<&DeviceOptions::receive_limit>,
           "Memory that peers may write, all peers together; 2M or more.",
           {kMinMemoryLimit}},
    Option{"receive_limit_per_peer", "FARWRITE_RECEIVE_LIMIT_PER_PEER", kDevice, kSize,
           at<&DeviceOptions::receive_limit_per_peer>,
           "The part of receive_limit that one peer may write.",
           {kMinMemoryLimit}, "(receive_limit)"},
    Option{"segment_bytes", "FARWRITE_SEGMENT_BYTES", kDevice, kSize,
           at<&DeviceOptions::segment_bytes>,
           "The step by which memory that peers may read grows.",
           {1}},
    Option{"receive_segment_bytes", "FARWRITE_RECEIVE_SEGMENT_BYTES", kDevice, kSize,
           at<&DeviceOptions::receive_segment_bytes>,
           "The step by which memory that one peer may write grows.",
           {1}},
    Option{"huge_pages", "FARWRITE_HUGE_PAGES", kDevice, kChoice, at<&DeviceOptions::huge_pages>,
           "Huge pages for memory that peers may read or write. explicit fails if the machine has"
           " none reserved.",
           {}, {}, kHugePagesNames},
    Option{"prefault", "FARWRITE_PREFAULT", kDevice, kSwitch, at<&DeviceOptions::prefault>,
           "Take pages from the kernel when memory grows. off takes them at their first use, which"
           " is far slower."},
    Option{"numa_node", "FARWRITE_NUMA_NODE", kBoth, kCount, at<&DeviceOptions::numa_node>,
           "Bind the memory to this NUMA node. -1 leaves placement to the kernel. The default prefers"
           " the node of the RDMA adapter that verbs uses.",
           {-1, 1023}, "(the adapter's)"},
    Option{"memory_idle_time", "FARWRITE_MEMORY_IDLE_TIME", kDevice, kSeconds,
           at<&DeviceOptions::memory_idle_time>,
           "Memory that was free or unused for this long goes back to the system, except the first"
           " segment."},
    Option{"detection_time", "FARWRITE_DETECTION_TIME", kDevice, kSeconds,
           at<&DeviceOptions::detection_time>,
           "A peer that sends nothing for this long is silent. Memory that it may write is"
           " quarantined, and the peer does not count as dead. 10ms or more.",
           {10 * kMillisecond}},
    Option{"handshake_timeout", "FARWRITE_HANDSHAKE_TIMEOUT", kDevice, kSeconds,
           at<&DeviceOptions::handshake_timeout>,
           "The bound on the handshake of one connection, on either side; 100ms or more.",
           {100 * kMillisecond}},
    Option{"data_port", "FARWRITE_DATA_PORT", kBoth, kCount,
           at<&DeviceOptions::tcp, &TcpOptions::data_port>,
           "The port of the tcp fabric, on the host of listen. 0 picks a free port once a peer"
           " connects by this fabric. Set it for firewalls.",
           {0, 65535}},
    Option{"host_timeout", "FARWRITE_HOST_TIMEOUT", kDevice, kSeconds,
           at<&DeviceOptions::host_timeout>,
           "A peer counts as dead if the network brings no acknowledgement from its host for this"
           " long; 1s or more.",
           {1000 * kMillisecond}},
    Option{"verbs.device", "FARWRITE_VERBS_DEVICE", kBoth, kText, kVerbs<&VerbsOptions::device>,
           "The RDMA device of the verbs fabric, by its name in ibv_devices; none takes the best"
           " device.",
           {}, "none"},
    Option{"verbs.port", "FARWRITE_VERBS_PORT", kBoth, kCount, kVerbs<&VerbsOptions::port>,
           "The port of the RDMA device, 1 or more.",
           {1, 255}, "none"},
    Option{"verbs.gid_index", "FARWRITE_VERBS_GID_INDEX", kBoth, kCount,
           kVerbs<&VerbsOptions::gid_index>,
           "With RoCE, the index in the port's GID table. The device uses the address in that"
           " entry.",
           {0, 65535}, "none"},
    Option{"verbs.send_queue_depth", "FARWRITE_VERBS_SEND_QUEUE_DEPTH", kBoth, kCount,
           kVerbs<&VerbsOptions::send_queue_depth>,
           "The work requests that a lane may have under way; fewer if the adapter allows fewer.",
           {1, kMost32}},
    Option{"verbs.receive_credits", "FARWRITE_VERBS_RECEIVE_CREDITS", kBoth, kCount,
           kVerbs<&VerbsOptions::receive_credits>,
           "The notifications and messages that a peer may have sent on a lane before they are"
           " taken.",
           {1, kMost32}},
    Option{"verbs.chunk_bytes", "FARWRITE_VERBS_CHUNK_BYTES", kBoth, kSize,
           kVerbs<&VerbsOptions::chunk_bytes>,
           "The most that one work request carries; less if the port allows less.",
           {1}},
    Option{"verbs.signal_every", "FARWRITE_VERBS_SIGNAL_EVERY", kBoth, kCount,
           kVerbs<&VerbsOptions::signal_every>,
           "Of the work requests that need no completion, one in this many requests one.",
           {1, kMost32}},
    Option{"verbs.inline_bytes", "FARWRITE_VERBS_INLINE_BYTES", kBoth, kSize,
           kVerbs<&VerbsOptions::inline_bytes>,
           "Writes up to this size travel inside their work request.",
           {0, kMost32}},
    Option{"verbs.retry_count", "FARWRITE_VERBS_RETRY_COUNT", kBoth, kCount,
           kVerbs<&VerbsOptions::retry_count>,
           "How often the adapter repeats what the peer's adapter does not acknowledge, 0 to 7.",
           {0, 7}},
    Option{"verbs.rnr_retry_count", "FARWRITE_VERBS_RNR_RETRY_COUNT", kBoth, kCount,
           kVerbs<&VerbsOptions::rnr_retry_count>,
           "How often the adapter repeats what finds no receive at the peer, 0 to 7; 7 is for"
           " ever.",
           {0, 7}},
    Option{"verbs.relaxed_ordering", "FARWRITE_VERBS_RELAXED_ORDERING", kBoth, kSwitch,
           kVerbs<&VerbsOptions::relaxed_ordering>,
           "Relaxed PCIe ordering of memory that peers write.",
           {}, "(where it is safe)"},
    Option{"verbs.use_immediate", "FARWRITE_VERBS_USE_IMMEDIATE", kBoth, kSwitch,
           kVerbs<&VerbsOptions::use_immediate>,
           "Notifications travel with writes. off uses the way that iWARP needs, to measure the"
           " difference."},
    Option{"metrics", "FARWRITE_METRICS", kBoth, kEndpoint, nullptr,  // Python's: farwrite.metrics
           "Serve GET /metrics at this address, in the Prometheus text format, for all devices of"
           " the process. A port alone means 127.0.0.1. If the address comes from the environment"
           " and is taken, that is only a warning, so that child processes may inherit it.",
           {}, "none"},
};

constexpr std::array<std::string_view, 3> kAllocations = {"unified", "traced", "off"};
constexpr std::array<std::string_view, 2> kTracings = {"auto", "always"};

constexpr std::array kPluginOptions = {
    Option{"--allocation", "FARWRITE_TF_ALLOCATION", kInPlugin | kInCommands, kChoice, nullptr,
           "unified: large tensors are allocated in registered memory. traced: only tensors of"
           " operations that were seen to make tensors that are sent. off: tensors are staged by"
           " one copy.",
           {}, "unified", kAllocations},
    Option{"", "FARWRITE_TF_TRACING", kInPlugin, kChoice, nullptr,
           "always: with traced, tracing never ends. Use it to measure the cost of tracing.",
           {}, "auto", kTracings},
    Option{"", "FARWRITE_TF_LANDING", kInPlugin, kSwitch, nullptr,
           "Whether tensors of a known size are written into memory that their receiver has"
           " prepared, where memory cannot be mapped. off, on the sender: each is offered, and"
           " read.",
           {}, "on"},
    Option{"", "FARWRITE_TF_CONTROL", kInPlugin, kSwitch, nullptr,
           "Whether TensorFlow's calls of every step go over Farwrite to a task that has the plug-in."
           " off: all control calls go over gRPC.",
           {}, "on"},
    Option{"", "FARWRITE_TF_SUMMARY", kInPlugin, kFile, nullptr,  // Python's: farwrite.run.summary
           "When it exits, each process writes its counters to FILE.<pid>.json and its edges to"
           " FILE.<pid>.edges.",
           {}, "none"},
};

constexpr std::array kGrpcOptions = {
    Option{"", "FARWRITE_GRPC_FABRICS", kInGrpc, kFabrics, nullptr,
           // Over our tcp a message takes longer than over gRPC's own: only who names it gets it.
           "The fabrics of gRPC's connections, best first. tcp is slower than gRPC's own TCP.",
           {}, "shm,verbs"},
    Option{"", "FARWRITE_GRPC_LISTEN", kInGrpc, kEndpoint, nullptr,
           "Where the process is reached, as HOST:PORT. Connections to other hosts move to"
           " Farwrite only if it is an address that they reach; then a token is needed as well.",
           {}, "127.0.0.1:0"},
    Option{"", "FARWRITE_GRPC_ANY_PEER", kInGrpc, kSwitch, nullptr,
           "Peers on other hosts need no token: as open as gRPC without TLS.",
           {}, "off"},
    Option{"--require", "FARWRITE_GRPC_REQUIRE", kInGrpc | kInCommands, kSwitch, nullptr,
           "A connection that cannot move to Farwrite fails instead of staying on TCP.",
           {}, "off"},
    Option{"", "FARWRITE_GRPC_SPIN_US", kInGrpc, kCount, nullptr,
           "How long a thread polls before it waits for a completion queue's events, in"
           " microseconds, if something came for that queue in the last 2 ms.",
           {0, 10'000}, "50"},
    Option{"", "FARWRITE_GRPC_COPY", kInGrpc, kSwitch, nullptr,
           "All bytes are copied through rings: the baseline with private buffers of the"
           " benchmarks. Both ends need it.",
           {}, "off"},
    Option{"", "FARWRITE_GRPC_STATS", kInGrpc, kFile, nullptr,
           "When it exits, each process appends a line of JSON with its counts.",
           {}, "none"},
};
// clang-format on

Status invalid(std::string_view operation, std::string_view cause) {
  return Status::error(StatusCode::kInvalidArgument, {operation}, cause,
                       "docs/reference/options.md describes the options");
}

// What the variable of `option` is set to; empty if it is not set.
std::string_view environment(const Option& option) {
  const char* const text = std::getenv(std::string(option.variable).c_str());
  return text == nullptr ? std::string_view() : text;
}

Status read_text(const Option& option, std::string_view text, OptionField field) {
  const std::string fault = parse(option, text, field);
  if (fault.empty()) return Status();
  return invalid("read the environment",
                 std::string(option.variable) + "=" + std::string(text) + " " + fault);
}

// The row of a variable that is no keyword of a device, or nullptr.
const Option* find_variable(std::string_view variable) {
  for (const std::span<const Option> table : {plugin_options(), grpc_options()}) {
    for (const Option& option : table) {
      if (option.variable == variable) return &option;
    }
  }
  return nullptr;
}

// A value of any kind that these options have, to be thrown away.
struct Scratch {
  std::string_view word;
  std::string text;
  std::uint64_t number = 0;
  Endpoint endpoint;
  std::vector<FabricKind> fabrics;

  OptionField field(OptionKind kind) {
    switch (kind) {
      case kSwitch:
      case kChoice:
        return &word;
      case kCount:
        return &number;
      case kEndpoint:
        return &endpoint;
      case kFabrics:
        return &fabrics;
      default:
        return &text;
    }
  }
};

}  // namespace

std::span<const Option> device_options() { return kDeviceOptions; }
std::span<const Option> plugin_options() { return kPluginOptions; }
std::span<const Option> grpc_options() { return kGrpcOptions; }

const Option* find_keyword(std::string_view name) {
  const auto* const found = std::find_if(kDeviceOptions.begin(), kDeviceOptions.end(),
                                         [&](const Option& option) { return option.name == name; });
  return found == kDeviceOptions.end() ? nullptr : found;
}

Status set_keyword(std::string_view name, std::string_view text, DeviceOptions& options) {
  const Option* const option = find_keyword(name);
  const std::string fault =
      option == nullptr ? "has no row" : parse(*option, text, option->field(options));
  if (fault.empty()) return Status();
  return invalid("set the options of a device",
                 std::string(name) + "=" + std::string(text) + " " + fault);
}

Status read_environment(OptionPlace place, DeviceOptions& options) {
  for (const Option& option : kDeviceOptions) {
    if ((option.places & place) == 0 || option.field == nullptr) continue;
    const std::string_view text = environment(option);
    if (text.empty()) continue;
    FARWRITE_RETURN_IF_ERROR(read_text(option, text, option.field(options)));
  }
  return Status();
}

Status read_variable(std::string_view variable, OptionField field) {
  const Option* const option = find_variable(variable);
  if (option == nullptr) {
    return invalid("read the environment", std::string(variable) + " has no row");
  }
  const std::string_view text = environment(*option);
  return read_text(*option, text.empty() ? option->default_text : text, field);
}

Status check_variable(std::string_view variable) {
  const Option* const option = find_variable(variable);
  const std::string_view text = option == nullptr ? std::string_view() : environment(*option);
  if (text.empty()) return Status();
  Scratch scratch;
  return read_text(*option, text, scratch.field(option->kind));
}

Status check_ranges(DeviceOptions options) {
  for (const Option& option : kDeviceOptions) {
    if (option.field == nullptr) continue;
    const std::string fault = check(option, options);
    if (fault.empty()) continue;
    return invalid("open a device", std::string(option.name) + "=" + fault);
  }
  return Status();
}

}  // namespace farwrite::core

namespace farwrite {

Status set_verbs_options(std::string_view text, VerbsOptions& options) {
  DeviceOptions result;
  result.verbs = options;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view setting = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const std::size_t equals = setting.find('=');
    const core::Option* const option =
        core::find_keyword("verbs." + std::string(setting.substr(0, equals)));
    std::string fault = "is not a setting of verbs";
    if (equals == std::string_view::npos) {
      fault = "has no value";
    } else if (option != nullptr) {
      fault = core::parse(*option, setting.substr(equals + 1), option->field(result));
    }
    if (!fault.empty()) {
      return Status::error(StatusCode::kInvalidArgument, {"set options of verbs"},
                           "\"" + std::string(setting) + "\" " + fault,
                           "write name=value, with commas between; docs/reference/options.md lists "
                           "the names, with verbs. before them");
    }
  }
  options = std::move(result.verbs);
  return Status();
}

}  // namespace farwrite
