// farwrite_bench._native: the measuring loops, which use only libfarwrite's public API.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "box.h"
#include "calls.h"
#include "farwrite/copy.h"
#include "farwrite/status.h"
#include "memory_bench.h"
#include "peer.h"
#include "raw_tcp.h"
#include "stamps.h"
#include "stream.h"
#include "threads.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace farwrite::bench {
namespace {

// Runs `call` without the GIL. `call` must not touch a Python object.
template <typename Call>
auto without_gil(Call&& call) {
  const nb::gil_scoped_release released;
  return std::forward<Call>(call)();
}

// Raises the exception class that farwrite.errors has for the status's code, with the status's
// message. The message may quote bytes of the peer that are not UTF-8; they are escaped.
[[noreturn]] void raise(const Status& status) {
  const std::string& message = status.message();
  const nb::object sentence =
      nb::bytes(message.data(), message.size()).attr("decode")("utf-8", "backslashreplace");
  const nb::object error = nb::module_::import_("farwrite.errors")
                               .attr("from_status")(static_cast<int>(status.code()), sentence);
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

void raise_if_error(const Status& status) {
  if (!status.ok()) raise(status);
}

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

using Bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The bytes of any Python object that has some, such as bytes or a read-only memoryview.
class Payload {
 public:
  explicit Payload(const nb::handle& object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~Payload() { PyBuffer_Release(&view_); }
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;

  const std::byte* data() const { return static_cast<const std::byte*>(view_.buf); }
  std::size_t size() const { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_;
};

std::int64_t transfer_of(const nb::handle& object, std::uint32_t seed, std::uint64_t places,
                         std::uint64_t stride) {
  const Payload payload(object);
  if (payload.size() == 0 || payload.size() % 8 != 0 || places == 0) {
    throw nb::value_error("a payload is a multiple of 8 bytes, and has a place");
  }
  const auto find = [&] {
    return numbered_transfer(payload.data(), payload.size(), seed, places, stride);
  };
  // Threads of a library may go on meanwhile. The switch costs more than a small sum.
  constexpr std::size_t kWorthASwitch = std::size_t{1} << 16;
  return payload.size() < kWorthASwitch ? find() : without_gil(find);
}

std::unique_ptr<Peer> open_peer(Role role, Op op, const std::string& fabric, std::uint32_t lanes,
                                std::uint64_t pool_bytes, double spin_seconds, int stage_fd) {
  const FabricKind kind = value_or_raise(parse_fabric(fabric));
  const PeerOptions options{
      .role = role,
      .op = op,
      .fabric = kind,
      .lanes = lanes,
      .pool_bytes = pool_bytes,
      .spin = std::chrono::nanoseconds(static_cast<std::int64_t>(spin_seconds * 1e9)),
      .stage_fd = stage_fd,
  };
  return value_or_raise(without_gil([&] { return Peer::open(options); }));
}

// An object that has these attributes, and that can be pickled.
template <typename... Attributes>
nb::object namespace_of(Attributes&&... attributes) {
  return nb::module_::import_("types").attr("SimpleNamespace")(
      std::forward<Attributes>(attributes)...);
}

nb::object prepare(Peer& peer, const std::string& endpoint, const std::vector<int>& raw_sockets) {
  Endpoint there;
  if (!endpoint.empty()) there = value_or_raise(Endpoint::parse(endpoint));
  const FirstUse costs =
      value_or_raise(without_gil([&] { return peer.prepare(there, raw_sockets); }));
  return namespace_of("allocate_seconds"_a = costs.allocate_seconds,
                      "open_seconds"_a = costs.open_seconds,
                      "registrations"_a = costs.registrations);
}

nb::object run_phase(Peer& peer, Op op, Kind kind, bool limit, std::uint64_t size,
                     std::uint64_t transfers, bool touch, bool block, std::uint64_t seed,
                     std::uint32_t lanes, std::uint32_t window, const std::string& kernel) {
  const Phase phase{
      .op = op,
      .kind = kind,
      .limit = limit,
      .touch = touch,
      .block = block,
      .size = size,
      .transfers = transfers,
      .seed = seed,
      .lanes = lanes,
      .window = window,
      .kernel = kernel,
  };
  const Outcome outcome = value_or_raise(without_gil([&] { return peer.run_phase(phase); }));
  return namespace_of("seconds"_a = outcome.seconds, "cpu_seconds"_a = outcome.cpu_seconds,
                      "bad"_a = outcome.bad, "samples_us"_a = outcome.samples_us,
                      "copies"_a = outcome.copies, "registrations"_a = outcome.registrations);
}

StreamTarget* open_target(const nb::handle& channel, const std::string& region) {
  const auto* const handle =
      static_cast<const fw_channel*>(PyCapsule_GetPointer(channel.ptr(), "fw_channel"));
  if (handle == nullptr) throw nb::python_error();
  const Channel opened(fw_channel_share(handle));
  return new StreamTarget(
      value_or_raise(without_gil([&] { return StreamTarget::open(opened, region); })));
}

double stream(StreamTarget& target, const Bytes& local, Op op, std::uint64_t size,
              std::uint64_t transfers, std::uint32_t depth) {
  const Stream stream{.op = op, .size = size, .transfers = transfers, .depth = depth};
  const MutableByteView memory(local.data(), local.size());
  return value_or_raise(without_gil([&] { return target.run(memory, stream); }));
}

void bind_p2p(nb::module_& m) {
  nb::enum_<Role>(m, "Role").value("SENDER", Role::kSender).value("RECEIVER", Role::kReceiver);
  nb::enum_<Op>(m, "Op")
      .value("WRITE", Op::kWrite)
      .value("READ", Op::kRead)
      .value("NOTIFY", Op::kNotify)
      .value("ALIAS", Op::kAlias);
  nb::enum_<Kind>(m, "Kind")
      .value("LATENCY", Kind::kLatency)
      .value("BANDWIDTH", Kind::kBandwidth)
      .value("VERIFY", Kind::kVerify);

  m.attr("ONE_WAY_BYTES") = kOneWayBytes;
  m.attr("MAX_ONE_WAY_SAMPLES") = kMaxOneWaySamples;
  m.attr("MAX_LANES") = kMaxLanes;
  m.attr("SOCKET_TUNING") = std::string(kSocketTuning);
  m.def("stage_bytes", &Stage::bytes_for, "pool_bytes"_a,
        "Bytes of memfd that a stage with a pool of `pool_bytes` needs.");
  m.def(
      "slots",
      [](std::uint64_t size, std::uint32_t lanes, std::uint64_t pool_bytes) {
        Phase phase;
        phase.size = size;
        phase.lanes = lanes;
        return SlotMap(phase, pool_bytes, pool_bytes / 2).slots;
      },
      "size"_a, "lanes"_a, "pool_bytes"_a, "The number of places of `size` bytes in one pool.");

  nb::class_<Peer>(m, "Peer", "One of the two measuring processes.")
      .def(nb::new_(&open_peer), "role"_a, "op"_a, "fabric"_a, "lanes"_a, "pool_bytes"_a,
           "spin_seconds"_a, "stage_fd"_a)
      .def_prop_ro("endpoint", [](const Peer& peer) { return peer.endpoint().to_string(); })
      .def("prepare", &prepare, "endpoint"_a, "raw_sockets"_a,
           "The costs of starting this process: allocate_seconds, open_seconds, registrations.")
      .def("run_phase", &run_phase, "op"_a, "kind"_a, "limit"_a, "size"_a, "transfers"_a,
           "touch"_a = true, "block"_a = false, "seed"_a = 0, "lanes"_a = 1, "window"_a = 1,
           "kernel"_a = "",
           "The figures of a phase in this process: seconds, cpu_seconds, bad, samples_us, copies, "
           "registrations.")
      .def("give_up", &Peer::give_up)
      .def("close", [](Peer& peer) { raise_if_error(without_gil([&] { return peer.close(); })); });
  nb::class_<StreamTarget>(m, "StreamTarget", "A region of the peer that streams write or read.")
      .def(nb::new_(&open_target), "channel"_a, "region"_a)
      .def("run", &stream, "local"_a, "op"_a, "size"_a, "transfers"_a, "depth"_a,
           "Seconds of a stream of writes or reads, with `depth` under way.");
}

void bind_stamps(nb::module_& m) {
  m.def(
      "stamp",
      [](const Bytes& payload, std::uint64_t transfer) {
        stamp(reinterpret_cast<std::byte*>(payload.data()), payload.size(), transfer);
      },
      "payload"_a, "transfer"_a, "Stamps head, tail and every 4 KiB of a uint8 array.");
  m.def(
      "verify_stamps",
      [](const Bytes& payload, std::uint64_t transfer) {
        return verify_stamps(reinterpret_cast<const std::byte*>(payload.data()), payload.size(),
                             transfer);
      },
      "payload"_a, "transfer"_a, "Whether every stamp of `transfer` is in its place.");
  m.def(
      "fill_ramp",
      [](const Bytes& payload, std::uint64_t first_word) {
        fill_ramp(reinterpret_cast<std::byte*>(payload.data()), payload.size(), first_word);
      },
      "payload"_a, "first_word"_a, "Fills a uint8 array with the ramp of the timed loops.");
  m.def(
      "ramp_matches",
      [](const Bytes& payload, std::uint64_t first_word) {
        return sum_words(reinterpret_cast<const std::byte*>(payload.data()), payload.size()) ==
               ramp_sum(first_word, payload.size() / 8);
      },
      "payload"_a, "first_word"_a, "Whether the sum of a uint8 array is the sum of the ramp.");
  m.def("transfer_of", &transfer_of, "payload"_a, "seed"_a, "places"_a, "stride"_a,
        "Which transfer a buffer holds, or -1 if any byte of it is wrong (stamps.h).");
  m.attr("RAMP_START") = kRampStart;
  m.attr("RAMP_STEP") = kRampStep;
}

void bind_memory(nb::module_& m) {
  nb::class_<FirstUseTimes>(m, "FirstUseTimes", "Seconds of a region's first use.")
      .def_ro("allocate_seconds", &FirstUseTimes::allocate_seconds)
      .def_ro("touch_seconds", &FirstUseTimes::touch_seconds);
  m.def(
      "time_allocations",
      [](bool use_malloc, std::uint32_t threads, std::uint64_t operations, bool touch) {
        AllocationPlan plan;
        plan.threads = threads;
        plan.operations = operations;
        plan.touch = touch;
        const Allocator allocator = use_malloc ? Allocator::kMalloc : Allocator::kFarwrite;
        return value_or_raise(without_gil([&] { return time_allocations(allocator, plan); }));
      },
      "use_malloc"_a, "threads"_a, "operations"_a, "touch"_a,
      "Nanoseconds per allocate + free of 64 KiB to 16 MiB blocks.");
  m.def("tune_malloc", &tune_malloc,
        "Tunes malloc for large blocks, for the rest of this process.");
  m.def(
      "first_use",
      [](bool use_kernel, std::uint64_t bytes) {
        return value_or_raise(without_gil(
            [&] { return use_kernel ? first_use_of_kernel(bytes) : first_use_of_device(bytes); }));
      },
      "use_kernel"_a, "bytes"_a, "Seconds of a region's first use.");
  nb::class_<CopyBench>(m, "CopyBench", "Buffers for timing copy kernels.")
      .def(nb::new_([](std::uint64_t pool_bytes) {
             return std::make_unique<CopyBench>(
                 value_or_raise(without_gil([&] { return CopyBench::make(pool_bytes); })));
           }),
           "pool_bytes"_a)
      .def(
          "rate",
          [](CopyBench& bench, const std::string& kernel, std::uint64_t size, double seconds) {
            return value_or_raise(without_gil([&] { return bench.rate(kernel, size, seconds); }));
          },
          "kernel"_a, "size"_a, "seconds"_a, "GB/s of one kernel at one size.");
}

void bind_box(nb::module_& m) {
  using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def(
      "copy",
      [](const Bytes& destination, const Bytes& source) {
        if (destination.size() != source.size()) throw nb::value_error("the sizes differ");
        without_gil([&] { copy_bytes(destination.data(), source.data(), source.size()); });
      },
      "destination"_a, "source"_a, "Copies a uint8 array by the kernel that Farwrite chose.");
  m.def(
      "add_in_place",
      [](const Floats& destination, const Floats& source, std::uint32_t threads) {
        if (destination.size() != source.size()) throw nb::value_error("the sizes differ");
        without_gil([&] {
          add_in_place(destination.data(), source.data(), source.size(), std::max(threads, 1u));
        });
      },
      "destination"_a, "source"_a, "threads"_a, "Adds a float32 array to another by a plain loop.");
  m.def(
      "time_box_reads",
      [](const std::string& endpoint, const std::string& fabric, std::uint64_t bytes,
         std::uint64_t reads, bool polls) {
        BoxReads plan{.endpoint = endpoint, .bytes = bytes, .reads = reads};
        plan.fabric = value_or_raise(parse_fabric(fabric));
        if (!polls) plan.spin = DeviceOptions().spin;
        return value_or_raise(without_gil([&] { return time_box_reads(plan); }));
      },
      "endpoint"_a, "fabric"_a, "bytes"_a, "reads"_a, "polls"_a,
      "Microseconds of each one-sided read of a small segment of a box.");
  m.def(
      "answer_requests",
      [](int socket, std::uint64_t request, std::uint64_t answer) {
        raise_if_error(without_gil(
            [&] { return answer_requests(socket, {.request = request, .answer = answer}); }));
      },
      "socket"_a, "request"_a, "answer"_a,
      "Answers requests of that many bytes on a connected socket, until its other end closes.");
  m.def(
      "time_requests",
      [](int socket, std::uint64_t request, std::uint64_t answer, std::uint64_t times) {
        return value_or_raise(without_gil(
            [&] { return time_requests(socket, {.request = request, .answer = answer}, times); }));
      },
      "socket"_a, "request"_a, "answer"_a, "times"_a,
      "Microseconds of each round trip with answer_requests() at the other end.");
}

void bind_calls(nb::module_& m) {
  nb::class_<Calls>(m, "Calls", "Two devices of this process, and single calls on them.")
      .def(nb::new_([] { return value_or_raise(without_gil([] { return Calls::make(); })); }))
      .def("names", &Calls::names, "What seconds() takes.")
      .def(
          "seconds",
          [](Calls& calls, const std::string& name, std::uint64_t times) {
            return value_or_raise(without_gil([&] { return calls.seconds(name, times); }));
          },
          "name"_a, "times"_a, "Seconds of so many rounds of the calls of that name.");
  nb::class_<Threads>(m, "Threads", "Two devices of this process, with channels for threads.")
      .def(nb::new_([](std::uint32_t channels, std::uint64_t max_bytes) {
             return value_or_raise(without_gil([&] { return Threads::make(channels, max_bytes); }));
           }),
           "channels"_a, "max_bytes"_a)
      .def(
          "seconds",
          [](Threads& threads, std::uint64_t bytes, std::uint64_t times, std::uint32_t count) {
            return value_or_raise(
                without_gil([&] { return threads.seconds(bytes, times, count); }));
          },
          "bytes"_a, "times"_a, "threads"_a, "Seconds in which each thread makes so many writes.");
}

}  // namespace
}  // namespace farwrite::bench

NB_MODULE(_native, module) {
  module.doc() = "The measuring loops of farwrite_bench.";
  farwrite::bench::bind_p2p(module);
  farwrite::bench::bind_stamps(module);
  farwrite::bench::bind_memory(module);
  farwrite::bench::bind_box(module);
  farwrite::bench::bind_calls(module);
}
