#include "python/box_server.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "python/counters.h"
#include "python/errors.h"
#include "python/module.h"
#include "python/options.h"
#include "python/waiting.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
using Server = BoxServer;

// `options` without those of the device and the directory.
Result<box::Server> serve_box(const Options& device, const std::string& snapshot_directory,
                              fw_box_options options) {
  const Result<const fw_device_options*> fields = device.fields();
  if (!fields.ok()) return fields.status();
  options.struct_size = sizeof(options);
  options.exact = 1;
  options.device = fields.value();
  if (!snapshot_directory.empty()) options.snapshot_directory = snapshot_directory.c_str();
  fw_box_server* server = nullptr;
  FARWRITE_RETURN_IF_ERROR(taken(fw_box_serve(&options, &server)));
  return box::Server(server);
}

Server* serve(const Options& device, std::uint64_t memory, std::uint64_t pool,
              std::uint32_t threads, std::string snapshot_directory, double snapshot_every,
              bool restore) {
  (void)c_text("serve a box", "the directory for snapshots", snapshot_directory);
  fw_box_options options = {};
  options.memory = memory;
  options.pool = pool;
  options.threads = threads;
  options.snapshot_every_ns =
      static_cast<std::uint64_t>(to_timeout(snapshot_every, "snapshot_every").count());
  options.restore = restore ? 1 : 0;
  return new Server(
      value_or_raise(wait_beside([device, options, directory = std::move(snapshot_directory)] {
        return serve_box(device, directory, options);
      })));
}

// A draft that goes back to the server with its last reference, unless it was committed: a signal
// handler may raise before Python has a chance to drop it. Thread-safe.
class OwnedDraft {
 public:
  OwnedDraft(box::Server server, box::Draft draft) : server_(std::move(server)), draft_(draft) {}
  ~OwnedDraft() {
    const nb::error_scope keep_error;
    drop();
  }
  OwnedDraft(const OwnedDraft&) = delete;
  OwnedDraft& operator=(const OwnedDraft&) = delete;

  MutableByteView bytes() const { return draft_.bytes; }
  std::uint64_t commit(bool new_epoch, std::uint64_t fence) {
    ended_ = true;  // even if it fails
    return value_or_raise(without_gil([&] { return server_->commit(draft_, new_epoch, fence); }));
  }
  void drop() {
    if (ended_.exchange(true)) return;
    without_gil([&] { server_->drop(draft_); });
  }

 private:
  Server server_;
  const box::Draft draft_;
  std::atomic<bool> ended_ = false;
};
using SharedDraft = std::shared_ptr<OwnedDraft>;

SharedDraft draft(Server& server, std::uint64_t key) {
  return std::make_shared<OwnedDraft>(
      *server, value_or_raise(without_gil([&] { return server->draft(key); })));
}

// Keeps the draft, and no longer stands for it after commit() or drop().
BytesArray view_draft(const SharedDraft& draft) {
  return view_bytes<BytesArray>(reinterpret_cast<std::uint8_t*>(draft->bytes().data),
                                draft->bytes().size, draft);
}

Counts server_stats(const Server& server) {
  return counts_of(without_gil([&] { return server->stats(); }));
}

void close_server(Server& server, std::optional<double> timeout, bool snapshot) {
  const auto limit = to_timeout(timeout);
  server.closing()->store(true);
  if (!snapshot) return raise_if_error(without_gil([&] { return server->close(limit); }));
  raise_if_error(
      wait_beside([server = *server, limit]() mutable { return server.close(limit, true); }));
}

}  // namespace

void bind_box_server(nb::module_& module) {
  nb::class_<OwnedDraft>(module, "BoxDraft")
      .def("view", &view_draft, "The draft's bytes, until commit() or drop().")
      .def("commit", &OwnedDraft::commit, nb::arg("new_epoch"), nb::arg("fence"))
      .def("drop", &OwnedDraft::drop);
  nb::class_<Server>(module, "BoxServer", nb::is_weak_referenceable())
      .def_static("serve", &serve, nb::arg("options"), nb::arg("memory"), nb::arg("pool"),
                  nb::arg("threads"), nb::arg("snapshot_directory"), nb::arg("snapshot_every"),
                  nb::arg("restore"))
      .def("endpoint", [](const Server& server) { return server.facts().endpoint().to_string(); })
      .def("draft", &draft, nb::arg("key"))
      .def(
          "snapshot",
          [](Server& server) {
            raise_if_error(wait_beside([server = *server]() mutable { return server.snapshot(); }));
          })
      .def("stats", &server_stats)
      .def("metrics",
           [](const Server& server) { return without_gil([&] { return server->metrics_text(); }); })
      .def("close", &close_server, nb::arg("timeout").none(), nb::arg("snapshot") = false);
}

}  // namespace farwrite::python
