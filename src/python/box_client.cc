#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "box/box.h"
#include "memory/copy.h"
#include "memory/private_view.h"
#include "python/box_segment.h"
#include "python/counters.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"
#include "python/peer.h"
#include "python/shared_object.h"
#include "python/waiting.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
using Client = Held<box::Client>;
using Segment = Held<box::Segment>;

Client* connect_client(const DeviceOptions& device, const std::string& server,
                       std::optional<double> timeout) {
  box::ClientOptions options;
  options.device = device;
  options.timeout = to_timeout(timeout);
  const Endpoint endpoint = value_or_raise(Endpoint::parse(server));
  return new Client(value_or_raise(
      wait_beside([endpoint, options] { return box::Client::connect(endpoint, options); })));
}

Segment* create(Client& client, std::string name, box::ElementType element,
                std::vector<std::uint64_t> dims, std::string description, std::uint32_t buffers,
                bool temporary, bool exclusive) {
  box::SegmentSpec spec;
  spec.name = std::move(name);
  spec.type = element;
  spec.dims = std::move(dims);
  spec.description = std::move(description);
  spec.buffers = buffers;
  spec.temporary = temporary;
  const auto creation = exclusive ? box::Creation::kExclusive : box::Creation::kOpenOrCreate;
  return new Segment(value_or_raise(
      wait_beside([client = *client, spec, creation] { return client.create(spec, creation); })));
}

Segment* attach_name(Client& client, const std::string& name, std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  return new Segment(value_or_raise(
      wait_beside([client = *client, name, limit] { return client.attach(name, limit); })));
}

Segment* attach_key(Client& client, std::uint64_t key) {
  return new Segment(
      value_or_raise(wait_beside([client = *client, key] { return client.attach(key); })));
}

nb::typed<nb::list, nb::typed<nb::dict, nb::str, nb::object>> list(Client& client) {
  nb::list segments;
  for (const box::SegmentInfo& info :
       value_or_raise(wait_beside([client = *client] { return client.list(); }))) {
    segments.append(to_dict(info));
  }
  return nb::typed<nb::list, nb::typed<nb::dict, nb::str, nb::object>>(std::move(segments));
}

nb::typed<nb::dict, nb::str, nb::object> describe(Client& client, const std::string& name) {
  return to_dict(
      value_or_raise(wait_beside([client = *client, name] { return client.describe(name); })));
}

Held<MemoryRegion>* allocate_memory(Client& client, std::uint64_t bytes) {
  return new Held<MemoryRegion>(
      value_or_raise(without_gil([&] { return client->allocate(bytes); })));
}

void close_client(Client& client, std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  raise_if_error(without_gil([&] { return client->close(limit); }));
}

// As many bytes as the shorter one has; either may lie on a GPU.
void copy(nb::handle destination, nb::handle source) {
  const PythonBuffer to = PythonBuffer::writable(destination);
  const PythonBuffer from = PythonBuffer::readable(source);
  const std::size_t bytes = std::min(to.size(), from.size());
  raise_if_error(
      without_gil([&] { return copy_memory(to.mutable_bytes().data, from.bytes().data, bytes); }));
}

// A private view of the bytes of a lease, which it keeps.
BytesArray copy_on_write(nb::object data) {
  const PythonBuffer buffer = PythonBuffer::readable(data);
  const ByteView bytes = buffer.bytes();
  struct Kept {
    SharedObject lease;
    memory::PrivateView view;  // goes first
  };
  memory::PrivateView view =
      value_or_raise(without_gil([&] { return memory::PrivateView::of(bytes); }));
  const MutableByteView own = view.bytes();
  auto kept = std::make_shared<Kept>(Kept{SharedObject(std::move(data)), std::move(view)});
  return view_bytes<BytesArray>(reinterpret_cast<std::uint8_t*>(own.data), own.size,
                                std::move(kept));
}

void add_scaled(box::ElementType element, nb::handle destination, nb::handle source,
                BoxNumber factor) {
  const PythonBuffer to = PythonBuffer::writable(destination);
  const PythonBuffer from = PythonBuffer::readable(source);
  const std::uint64_t elements = std::min(to.size(), from.size()) / box::bytes_of(element);
  raise_if_error(without_gil([&] {
    return box::add_scaled(element, to.mutable_bytes().data, from.bytes().data, to_factor(factor),
                           elements);
  }));
}

}  // namespace

void bind_box_client(nb::module_& module) {
  nb::class_<Client>(module, "BoxClient", nb::is_weak_referenceable())
      .def_static("connect", &connect_client, nb::arg("options"), nb::arg("server"),
                  nb::arg("timeout").none())
      .def("create", &create, nb::arg("name"), nb::arg("element"), nb::arg("dims"),
           nb::arg("description"), nb::arg("buffers"), nb::arg("temporary"), nb::arg("exclusive"))
      .def("attach_name", &attach_name, nb::arg("name"), nb::arg("timeout").none())
      .def("attach_key", &attach_key, nb::arg("key"))
      .def("list", &list)
      .def("describe", &describe, nb::arg("name"))
      .def("allocate", &allocate_memory, nb::arg("bytes"))
      .def("server", [](const Client& client) { return to_dict(client.facts().server()); })
      .def("stats", [](const Client& client) { return counts_of(client->stats()); })
      .def("close", &close_client, nb::arg("timeout").none());
  module.def("copy", &copy, nb::arg("destination"), nb::arg("source"));
  module.def("copy_on_write", &copy_on_write, nb::arg("data"));
  module.def("add_scaled", &add_scaled, nb::arg("element"), nb::arg("destination"),
             nb::arg("source"), nb::arg("factor"));
}

}  // namespace farwrite::python
