#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "farwrite/box.h"
#include "farwrite/gpu.h"
#include "python/box_segment.h"
#include "python/box_server.h"
#include "python/counters.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"
#include "python/options.h"
#include "python/peer.h"
#include "python/shared_object.h"
#include "python/waiting.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
using Client = Held<box::Client>;
using Segment = Held<box::Segment>;

Result<box::Client> connect_box(const std::string& server, const Options& device,
                                std::chrono::nanoseconds timeout) {
  const Result<const fw_device_options*> fields = device.fields();
  if (!fields.ok()) return fields.status();
  // A 0 would be the default.
  const auto limit = std::max(timeout, std::chrono::nanoseconds(1));
  fw_box_client* client = nullptr;
  FARWRITE_RETURN_IF_ERROR(taken(fw_box_connect(
      server.c_str(), fields.value(), static_cast<std::uint64_t>(limit.count()), &client)));
  return box::Client(client);
}

// While it lives, the waits of this thread for a server end once that closes.
class WhileOpen {
 public:
  explicit WhileOpen(std::atomic<bool>* closing) {
    if (closing == nullptr) return;
    fw_set_interrupt(
        [](void* flag) { return static_cast<std::atomic<bool>*>(flag)->load() ? 1 : 0; }, closing);
  }
  ~WhileOpen() { fw_set_interrupt(nullptr, nullptr); }
  WhileOpen(const WhileOpen&) = delete;
  WhileOpen& operator=(const WhileOpen&) = delete;
};

// `own`: the server, if it is of this process.
Client* connect_client(const Options& device, const std::string& server,
                       std::optional<double> timeout, const BoxServer* own) {
  const auto limit = to_timeout(timeout);
  (void)c_text("connect to a box", "the address", server);
  const auto closing = own == nullptr ? nullptr : own->closing();
  return new Client(value_or_raise(wait_beside([server, device, limit, closing] {
    const WhileOpen open(closing.get());
    return connect_box(server, device, limit);
  })));
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
      wait_watched([client = *client, &spec, creation] { return client.create(spec, creation); },
                   // Nothing knows of the segment, and its name would stay taken.
                   [&](Result<box::Segment>& made) {
                     if (exclusive && made.ok()) (void)made->free();
                   })));
}

Segment* attach_name(Client& client, const std::string& name, std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  return new Segment(value_or_raise(
      wait_watched([client = *client, &name, limit] { return client.attach(name, limit); })));
}

Segment* attach_key(Client& client, std::uint64_t key) {
  return new Segment(
      value_or_raise(wait_watched([client = *client, key] { return client.attach(key); })));
}

nb::typed<nb::list, nb::typed<nb::dict, nb::str, nb::object>> list(Client& client) {
  nb::list segments;
  for (const box::SegmentInfo& info :
       value_or_raise(wait_watched([client = *client] { return client.list(); }))) {
    segments.append(to_dict(info));
  }
  return nb::typed<nb::list, nb::typed<nb::dict, nb::str, nb::object>>(std::move(segments));
}

nb::typed<nb::dict, nb::str, nb::object> describe(Client& client, const std::string& name) {
  return to_dict(
      value_or_raise(wait_watched([client = *client, &name] { return client.describe(name); })));
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
    std::shared_ptr<fw_lease> view;  // goes first
  };
  fw_slice view = {};
  raise_if_error(
      without_gil([&] { return taken(fw_private_view(bytes.data, bytes.size, &view)); }));
  std::shared_ptr<fw_lease> mapped(view.lease, fw_lease_release);
  auto kept = std::make_shared<Kept>(Kept{SharedObject(std::move(data)), std::move(mapped)});
  auto* const own = static_cast<std::uint8_t*>(const_cast<void*>(view.data));
  return view_bytes<BytesArray>(own, view.bytes, std::move(kept));
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
                  nb::arg("timeout").none(), nb::arg("own").none())
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
