/// @file
/// The process that serves a parameter box (box.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "farwrite/box_types.h"
#include "farwrite/c_box.h"
#include "farwrite/endpoint.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/device_options.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/status.h"

FARWRITE_BEGIN
namespace box {

/// The process that holds the segments. Copies share it. It ends with close() or the last copy.
/// Thread-safe.
class Server {
 public:
  /// Opens a device, restores a snapshot if asked to, and accepts clients from then on.
  static Result<Server> serve(const ServerOptions& options = {});

  Server() = default;
  /// @private Made by serve(), takes the handle over.
  explicit Server(fw_box_server* handle)
      : handle_(internal::owned(handle, fw_box_server_release)) {}
  /// @private
  fw_box_server* handle() const { return handle_.get(); }
  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return handle_ != nullptr; }

  /// Where clients connect.
  Endpoint endpoint() const;
  /// A buffer for the next version of the segment `key`, which this process fills by itself: so a
  /// publisher in the server's process makes one copy and no more. End it with commit() or drop().
  Result<Draft> draft(std::uint64_t key);
  /// Makes the draft current, and returns the version that it became. `new_epoch` as in Change.
  /// With a `fence`, kNotFound if there is no segment of that key (Change::y_key). This ends the
  /// draft, even when it fails. kFailedPrecondition for a draft that was committed or dropped.
  Result<std::uint64_t> commit(const Draft& draft, bool new_epoch = false, std::uint64_t fence = 0);
  /// Gives the draft back unused.
  void drop(const Draft& draft);

  /// Writes a snapshot now: of each segment one version, checksummed, in a file that replaces
  /// nothing until it is whole and on the disk.
  Status snapshot() { return internal::taken(fw_box_server_snapshot(handle())); }
  /// The counts of this server.
  ServerStats stats() const;
  /// Those counts and the device's, in the Prometheus text format.
  std::string metrics_text() const {
    return internal::whole_text([this](char* buffer, std::uint64_t capacity) {
      return fw_box_server_metrics(handle(), buffer, capacity);
    });
  }
  /// Ends every connection and gives the memory back, but for drafts that have not ended. Segments
  /// are gone, except for what the last snapshot holds. Bytes that clients have leased stay as they
  /// are; draft() and commit() fail with kFailedPrecondition.
  ///
  /// With `last_snapshot` it writes a snapshot after the last change: every change that was
  /// answered is in it. If that fails, the server is closed nevertheless, and the error is
  /// returned. kFailedPrecondition without a directory, and then the server serves on.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1),
               bool last_snapshot = false) {
    return internal::taken(
        fw_box_server_close(handle(), internal::to_ns(timeout), last_snapshot ? 1 : 0));
  }

 private:
  static fw_draft to_c(const Draft& draft);

  std::shared_ptr<fw_box_server> handle_;
};

inline Result<Server> Server::serve(const ServerOptions& options) {
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("serve a box", "the directory for snapshots",
                                                 options.snapshot_directory));
  FARWRITE_RETURN_IF_ERROR(
      internal::refuse_negative("serve a box", "snapshot_every", options.snapshot_every));
  const internal::COptions device(options.device);
  FARWRITE_RETURN_IF_ERROR(device.status());
  fw_box_options c = {};
  c.struct_size = sizeof(c);
  c.exact = 1;
  c.device = device.get();
  c.memory = options.memory;
  c.pool = options.pool;
  c.threads = options.threads;
  c.restore = options.restore ? 1 : 0;
  c.snapshot_directory = options.snapshot_directory.c_str();
  c.snapshot_every_ns = internal::to_ns(options.snapshot_every);
  fw_box_server* server = nullptr;
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_box_serve(&c, &server)));
  return Server(server);
}

inline Endpoint Server::endpoint() const {
  char text[FW_NAME_BYTES] = {};
  fw_box_server_endpoint(handle(), text);
  return internal::endpoint_of(text);
}

inline fw_draft Server::to_c(const Draft& draft) {
  fw_draft c = {};
  c.key = draft.key;
  c.buffer = draft.buffer;
  c.data = draft.bytes.data;
  c.bytes = draft.bytes.size;
  return c;
}

inline Result<Draft> Server::draft(std::uint64_t key) {
  fw_draft c = {};
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_box_server_draft(handle(), key, &c)));
  return Draft{c.key, c.buffer, {c.data, static_cast<std::size_t>(c.bytes)}};
}

inline Result<std::uint64_t> Server::commit(const Draft& draft, bool new_epoch,
                                            std::uint64_t fence) {
  const fw_draft c = to_c(draft);
  std::uint64_t version = 0;
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_box_server_commit(handle(), &c, new_epoch ? 1 : 0, fence, &version)));
  return version;
}

inline void Server::drop(const Draft& draft) {
  const fw_draft c = to_c(draft);
  fw_box_server_drop(handle(), &c);
}

inline ServerStats Server::stats() const {
  fw_box_server_counts known = {};
  known.struct_size = sizeof(known);
  fw_box_server_stats(handle(), &known);
  ServerStats stats;
  stats.clients = known.clients;
  stats.segments = known.segments;
  stats.segment_bytes = known.segment_bytes;
  stats.changes = known.changes;
  stats.bytes_changed = known.bytes_changed;
  stats.refused = known.refused;
  stats.switches = known.switches;
  stats.copies_for_leases = known.copies_for_leases;
  stats.leases = known.leases;
  stats.leases_granted = known.leases_granted;
  stats.snapshots = known.snapshots;
  stats.snapshot_failures = known.snapshot_failures;
  return stats;
}

}  // namespace box
FARWRITE_END
