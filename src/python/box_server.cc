#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "farwrite/box.h"
#include "python/counters.h"
#include "python/errors.h"
#include "python/held.h"
#include "python/module.h"
#include "python/waiting.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
using Server = Held<box::Server>;

Server* serve(const DeviceOptions& device, std::uint64_t memory, std::uint64_t pool,
              std::uint32_t threads, std::string snapshot_directory, double snapshot_every,
              bool restore) {
  box::ServerOptions options;
  options.device = device;
  options.memory = memory;
  options.pool = pool;
  options.threads = threads;
  options.snapshot_directory = std::move(snapshot_directory);
  options.snapshot_every = to_timeout(snapshot_every, "snapshot_every");
  options.restore = restore;
  return new Server(value_or_raise(wait_beside([options] { return box::Server::serve(options); })));
}

box::Draft draft(Server& server, std::uint64_t key) {
  return value_or_raise(without_gil([&] { return server->draft(key); }));
}

std::uint64_t commit(Server& server, const box::Draft& draft) {
  return value_or_raise(without_gil([&] { return server->commit(draft); }));
}

// Keeps the server alive, and no longer stands for the draft after commit() or drop().
BytesArray view(Server& server, const box::Draft& draft) {
  return view_bytes<BytesArray>(reinterpret_cast<std::uint8_t*>(draft.bytes.data), draft.bytes.size,
                                *server);
}

Counts stats(const Server& server) {
  return counts_of(without_gil([&] { return server->stats(); }));
}

void close(Server& server, std::optional<double> timeout) {
  const auto limit = to_timeout(timeout);
  raise_if_error(without_gil([&] { return server->close(limit); }));
}

}  // namespace

void bind_box_server(nb::module_& module) {
  nb::class_<box::Draft>(module, "BoxDraft").def_ro("key", &box::Draft::key);
  nb::class_<Server>(module, "BoxServer", nb::is_weak_referenceable())
      .def_static("serve", &serve, nb::arg("options"), nb::arg("memory"), nb::arg("pool"),
                  nb::arg("threads"), nb::arg("snapshot_directory"), nb::arg("snapshot_every"),
                  nb::arg("restore"))
      .def("endpoint", [](const Server& server) { return server->endpoint().to_string(); })
      .def("draft", &draft, nb::arg("key"))
      .def("view", &view, nb::arg("draft"), "The draft's bytes, until commit() or drop().")
      .def("commit", &commit, nb::arg("draft"))
      .def(
          "drop",
          [](Server& server, const box::Draft& draft) {
            without_gil([&] { server->drop(draft); });
          },
          nb::arg("draft"))
      .def(
          "snapshot",
          [](Server& server) {
            raise_if_error(wait_beside([server = *server]() mutable { return server.snapshot(); }));
          })
      .def("stats", &stats)
      .def("metrics",
           [](const Server& server) { return without_gil([&] { return server->metrics_text(); }); })
      .def("close", &close, nb::arg("timeout").none());
}

}  // namespace farwrite::python
