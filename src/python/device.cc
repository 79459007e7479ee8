#include "farwrite/device.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>

#include "python/counters.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"
#include "python/options.h"
#include "python/waiting.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
using Local = Held<MemoryRegion>;
using Owner = Held<Device>;

Result<Device> device_of(const Options& options) {
  const Result<const fw_device_options*> fields = options.fields();
  if (!fields.ok()) return fields.status();
  fw_device* device = nullptr;
  FARWRITE_RETURN_IF_ERROR(taken(fw_device_open(fields.value(), &device)));
  return Device(device);
}

void open_device(Owner* self, const Options& options) {
  new (self) Owner(value_or_raise(without_gil([&] { return device_of(options); })));
}

Held<Channel>* connect_channel(Owner& device, const std::string& peer,
                               std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  const Endpoint endpoint = value_or_raise(Endpoint::parse(peer));
  return new Held<Channel>(value_or_raise(wait_beside(
      [device = *device, endpoint, limit]() mutable { return device.connect(endpoint, limit); })));
}

Held<Channel>* accept(Owner& device, std::optional<double> timeout) {
  const Device handle = *device;  // the Python object may go away meanwhile
  return new Held<Channel>(
      value_or_raise(wait_in_slices(to_timeout(timeout), [&](std::chrono::nanoseconds slice) {
        return Device(handle).accept(slice);
      })));
}

Local* allocate_region(Owner& device, std::uint64_t bytes, const std::string& kind) {
  const MemoryKind place = value_or_raise(MemoryKind::parse(kind));
  return new Local(value_or_raise(without_gil([&] { return device->allocate(bytes, place); })));
}

void publish_to_all(Owner& device, const std::string& name, const Local& region,
                    const std::string& description) {
  raise_if_error(without_gil([&] { return device->publish(name, *region, description); }));
}

void unpublish(Owner& device, const std::string& name) {
  raise_if_error(without_gil([&] { return device->unpublish(name); }));
}

nb::typed<nb::dict, nb::str, nb::object> device_stats(const Owner& device) {
  const DeviceStats counts = device->stats();
  nb::list choices;
  for (const std::string& choice : counts.choices) choices.append(choice);
  nb::dict stats = counts_of(counts);
  stats["send"] = counts_of(counts.send);
  stats["receive"] = counts_of(counts.receive);
  stats["adapters"] = counts_of(counts.adapters);
  stats["gpu"] = counts_of(counts.gpu);
  stats["choices"] = choices;
  return nb::typed<nb::dict, nb::str, nb::object>(std::move(stats));
}

void close_device(Owner& device, std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  raise_if_error(without_gil([&] { return device->close(limit); }));
}

}  // namespace

void bind_device(nb::module_& module) {
  nb::class_<Owner>(module, "Device", nb::is_weak_referenceable())
      .def("__init__", &open_device, nb::arg("options"))
      .def("endpoint", [](const Owner& device) { return device.facts().endpoint().to_string(); })
      .def("uuid",
           [](const Owner& device) {
             const DeviceUuid uuid = device.facts().uuid();
             return nb::bytes(uuid.data(), uuid.size());
           })
      .def("epoch", [](const Owner& device) { return device.facts().epoch(); })
      .def("connect", &connect_channel, nb::arg("peer"), nb::arg("timeout").none())
      .def("accept", &accept, nb::arg("timeout").none())
      .def("allocate", &allocate_region, nb::arg("bytes"), nb::arg("kind"))
      .def(
          "contains",
          [](const Owner& device, nb::handle array) {
            return device->contains(PythonBuffer::readable(array).bytes().data);
          },
          nb::arg("array"))
      .def("publish", &publish_to_all, nb::arg("name"), nb::arg("region"), nb::arg("description"))
      .def("unpublish", &unpublish, nb::arg("name"))
      .def("stats", &device_stats)
      .def("metrics",
           [](const Owner& device) { return without_gil([&] { return device->metrics_text(); }); })
      .def("close", &close_device, nb::arg("timeout").none());
}

}  // namespace farwrite::python
