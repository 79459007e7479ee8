#include "python/box_segment.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/callback.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"
#include "python/shared_object.h"
#include "python/waiting.h"

namespace farwrite::python {

namespace nb = nanobind;

nb::typed<nb::dict, nb::str, nb::object> to_dict(const box::SegmentInfo& info) {
  nb::dict segment;
  segment["name"] = info.spec.name;
  segment["key"] = info.key;
  segment["element"] = info.spec.type;
  segment["dims"] = info.spec.dims;
  segment["nbytes"] = info.bytes;
  segment["epoch"] = info.epoch;
  segment["version"] = info.version;
  segment["buffers"] = info.spec.buffers;
  segment["temporary"] = info.spec.temporary;
  segment["attached"] = info.attached;
  segment["silent"] = info.silent;
  segment["age"] = std::chrono::duration<double>(info.age).count();
  segment["description"] = nb::bytes(info.spec.description.data(), info.spec.description.size());
  return nb::typed<nb::dict, nb::str, nb::object>(std::move(segment));
}

namespace {

using Segment = Held<box::Segment>;
// An epoch and a version.
using IdTuple = nb::typed<nb::tuple, std::uint64_t, std::uint64_t>;
// The bytes that a lease pins, their epoch and their version.
using LeaseTuple = nb::typed<nb::tuple, ReadOnlyBytesArray, std::uint64_t, std::uint64_t>;
// The epoch, the version, the retries, and whether the server pinned a buffer for the read.
using ReadTuple = nb::typed<nb::tuple, std::uint64_t, std::uint64_t, std::uint32_t, bool>;

IdTuple to_tuple(const box::VersionId& id) { return nb::make_tuple(id.epoch, id.version); }

ReadTuple read_segment(Segment& self, nb::handle out, std::uint64_t offset, bool per_chunk,
                       std::uint64_t min_version, std::uint64_t epoch,
                       std::optional<double> timeout) {
  PythonBuffer buffer = PythonBuffer::writable(out);
  const MutableByteView bytes = buffer.mutable_bytes();
  using Clock = std::chrono::steady_clock;
  const std::chrono::nanoseconds limit = to_timeout(timeout);
  const Clock::time_point start = Clock::now();
  const auto remaining = [&]() -> std::chrono::nanoseconds {
    if (limit == kForever) return kForever;
    return std::max(limit - (Clock::now() - start), std::chrono::nanoseconds(0));
  };
  if (min_version > 0) {
    raise_if_error(wait_watched([&, segment = *self] {
                     return segment.wait(min_version, remaining(), epoch);
                   }).status());
  }
  // Its bytes may still arrive once the read was given up.
  const auto owner = std::make_shared<SharedBuffer>(buffer);
  const box::ReadResult result = value_or_raise(wait_watched([&, segment = *self] {
    box::ReadOptions options;
    options.consistency = per_chunk ? box::Consistency::kChunk : box::Consistency::kSegment;
    options.timeout = remaining();
    options.owner = owner;
    return segment.read(bytes, offset, options);
  }));
  return nb::make_tuple(result.epoch, result.version, result.retries, result.leased);
}

box::Update post_update(Segment& self, box::Operation operation, std::uint64_t offset,
                        std::optional<std::uint64_t> length, BoxNumber factor,
                        std::optional<nb::object> memory, std::uint64_t x_key,
                        std::uint64_t x_offset, std::uint64_t y_key, std::uint64_t y_offset,
                        bool new_epoch, std::optional<double> wait) {
  box::Change change;
  change.operation = operation;
  change.offset = offset;
  change.length = length.value_or(box::Change::kWhole);
  change.factor = to_factor(factor);
  change.x_key = x_key;
  change.x_offset = x_offset;
  change.y_key = y_key;
  change.y_offset = y_offset;
  change.new_epoch = new_epoch;
  const std::chrono::nanoseconds limit = to_timeout(wait, "wait");
  std::optional<SharedBuffer> owner;
  if (memory.has_value()) {
    PythonBuffer buffer = PythonBuffer::readable(*memory);
    change.memory = buffer.bytes();
    owner.emplace(buffer);
  }
  const auto post = [&, segment = *self] {
    box::Update update = segment.post(change, limit);
    if (owner.has_value()) update.done = keep(std::move(update.done), *owner);
    return update;
  };
  return limit.count() > 0 ? wait_watched(post) : without_gil(post);
}

IdTuple wait_for_version(Segment& self, std::uint64_t version, std::uint64_t epoch,
                         std::optional<double> timeout) {
  return to_tuple(value_or_raise(wait_watched([=, segment = *self, limit = to_timeout(timeout)] {
    return segment.wait(version, limit, epoch);
  })));
}

// Calls function(epoch, version, code, message) once, unless cancel() gets the number first.
std::uint64_t on_version(Segment& self, std::uint64_t version, std::uint64_t epoch,
                         nb::callable function) {
  auto callback = [function = Callback(std::move(function))](const Result<box::VersionId>& now) {
    function([&] {
      const box::VersionId id = now.ok() ? now.value() : box::VersionId();
      return nb::make_tuple(id.epoch, id.version, static_cast<int>(now.status().code()),
                            sentence_of(now.status()));
    });
  };
  return without_gil([&] { return self->on_version(version, std::move(callback), epoch); });
}

LeaseTuple to_tuple(box::LeasedSegment leased) {
  const auto* const data = reinterpret_cast<const std::uint8_t*>(leased.bytes().data);
  const std::size_t size = leased.bytes().size;
  const std::uint64_t epoch = leased.epoch();
  const std::uint64_t version = leased.version();
  return nb::make_tuple(view_bytes<ReadOnlyBytesArray>(data, size, std::move(leased)), epoch,
                        version);
}

LeaseTuple lease(Segment& self, std::optional<double> timeout) {
  return to_tuple(value_or_raise(wait_watched(
      [segment = *self, limit = to_timeout(timeout)] { return segment.lease(limit); })));
}

LeaseTuple view_segment(Segment& self) {
  return to_tuple(value_or_raise(wait_watched([segment = *self] { return segment.view(); })));
}

void bind_update(nb::module_& module) {
  nb::class_<box::Update>(module, "BoxUpdate")
      .def("completion", [](const box::Update& update) { return update.done; })
      .def(
          "version", [](const box::Update& update) { return *update.version; },
          "Valid once the completion is ok.");
}

void bind_enumerations(nb::module_& module) {
  nb::enum_<box::ElementType>(module, "BoxElement")
      .value("BYTES", box::ElementType::kBytes)
      .value("FLOAT64", box::ElementType::kFloat64)
      .value("FLOAT32", box::ElementType::kFloat32)
      .value("FLOAT16", box::ElementType::kFloat16)
      .value("BFLOAT16", box::ElementType::kBFloat16)
      .value("INT32", box::ElementType::kInt32)
      .value("INT64", box::ElementType::kInt64);
  nb::enum_<box::Operation>(module, "BoxOperation")
      .value("WRITE", box::Operation::kWrite)
      .value("ACCUMULATE", box::Operation::kAccumulate)
      .value("AXPY", box::Operation::kAxpy)
      .value("SCALE", box::Operation::kScale)
      .value("FILL", box::Operation::kFill)
      .value("SWAP", box::Operation::kSwap)
      .value("SIGNAL", box::Operation::kSignal);
  module.attr("BOX_MAX_BUFFERS") = box::kMaxBuffers;
  module.attr("BOX_MAX_DESCRIPTION") = box::kMaxDescription;
  module.attr("BOX_MAX_RANK") = box::kMaxRank;
  module.attr("BOX_CHUNK_BYTES") = box::kChunkBytes;
}

}  // namespace

void bind_box_segment(nb::module_& module) {
  bind_enumerations(module);
  bind_update(module);
  nb::class_<Segment>(module, "BoxSegment", nb::is_weak_referenceable())
      .def("info", [](const Segment& segment) { return to_dict(segment.facts().info()); })
      .def("version",
           [](const Segment& segment) {
             return value_or_raise(wait_watched([held = *segment] { return held.version(); }));
           })
      .def("version_id",
           [](const Segment& segment) {
             return to_tuple(
                 value_or_raise(wait_watched([held = *segment] { return held.version_id(); })));
           })
      .def("chunk_versions",
           [](const Segment& segment) {
             return value_or_raise(
                 wait_watched([held = *segment] { return held.chunk_versions(); }));
           })
      .def("read", &read_segment, nb::arg("out"), nb::arg("offset"), nb::arg("per_chunk"),
           nb::arg("min_version"), nb::arg("epoch"), nb::arg("timeout").none())
      .def("post", &post_update, nb::arg("operation"), nb::arg("offset"), nb::arg("length").none(),
           nb::arg("factor"), nb::arg("memory").none(), nb::arg("x_key"), nb::arg("x_offset"),
           nb::arg("y_key"), nb::arg("y_offset"), nb::arg("new_epoch"), nb::arg("wait").none())
      .def("wait", &wait_for_version, nb::arg("version"), nb::arg("epoch"),
           nb::arg("timeout").none())
      .def("on_version", &on_version, nb::arg("version"), nb::arg("epoch"), nb::arg("function"),
           nb::sig("def on_version(self, version: int, epoch: int, function: "
                   "collections.abc.Callable[[int, int, int, str], object]) -> int"))
      .def(
          "cancel",
          [](const Segment& segment, std::uint64_t wait) {
            without_gil([&] { segment.facts().cancel(wait); });
          },
          nb::arg("wait"))
      .def("check_wait", [](Segment& segment) { raise_if_error(segment->check_wait()); })
      .def("lease", &lease, nb::arg("timeout").none())
      .def("view", &view_segment)
      .def("detach",
           [](Segment& segment) { raise_if_error(without_gil([&] { return segment->detach(); })); })
      .def("free", [](Segment& segment) {
        raise_if_error(wait_watched([held = *segment]() mutable { return held.free(); }));
      });
}

}  // namespace farwrite::python
