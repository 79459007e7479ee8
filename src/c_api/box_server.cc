// The C ABI: the server of a box.
#include <string>

#include "c_api/handles.h"

using farwrite::Result;
using farwrite::box::Draft;
using farwrite::box::Server;
using farwrite::box::ServerOptions;
using farwrite::c_api::hand_out;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::c_api::to_duration;

namespace {

Result<ServerOptions> to_server_options(const fw_box_options* given) {
  ServerOptions options;
  if (given == nullptr) return options;
  const auto sized = farwrite::c_api::taken("fw_box_options", *given);
  if (!sized.ok()) return sized.status();
  const fw_box_options& c = sized.value();
  auto device = farwrite::c_api::to_options(c.device);
  if (!device.ok()) return device.status();
  options.device = *std::move(device);
  const farwrite::c_api::Numbers numbers(c.exact);
  numbers.take(c.memory, options.memory);
  numbers.take(c.pool, options.pool);
  options.threads = c.threads;
  options.restore = c.restore != 0;
  if (c.snapshot_directory != nullptr) options.snapshot_directory = c.snapshot_directory;
  options.snapshot_every = to_duration(c.snapshot_every_ns);
  return options;
}

Draft to_draft(const fw_draft& draft) {
  return {.key = draft.key, .buffer = draft.buffer, .bytes = {draft.data, draft.bytes}};
}

}  // namespace

fw_status* fw_box_serve(const fw_box_options* options, fw_box_server** server) {
  if (fw_status* const refused = refuse_null("serve a box", {{"server", server != nullptr}})) {
    return refused;
  }
  const auto chosen = to_server_options(options);
  if (!chosen.ok()) return to_c(chosen.status());
  return hand_out(Server::serve(chosen.value()), server);
}

void fw_box_server_endpoint(const fw_box_server* server, char endpoint[FW_NAME_BYTES]) {
  if (server == nullptr || endpoint == nullptr) return;
  farwrite::c_api::copy_text(server->server.endpoint().to_string(), endpoint, FW_NAME_BYTES);
}

fw_status* fw_box_server_draft(fw_box_server* server, uint64_t key, fw_draft* draft) {
  if (fw_status* const refused = refuse_null(
          "draft a segment", {{"server", server != nullptr}, {"draft", draft != nullptr}})) {
    return refused;
  }
  const auto drafted = server->server.draft(key);
  if (!drafted.ok()) return to_c(drafted.status());
  const Draft& made = drafted.value();
  *draft = {made.key, made.buffer, made.bytes.data, made.bytes.size};
  return nullptr;
}

fw_status* fw_box_server_commit(fw_box_server* server, const fw_draft* draft, int new_epoch,
                                uint64_t fence, uint64_t* version) {
  if (fw_status* const refused = refuse_null("commit a draft", {{"server", server != nullptr},
                                                                {"draft", draft != nullptr},
                                                                {"version", version != nullptr}})) {
    return refused;
  }
  const auto committed = server->server.commit(to_draft(*draft), new_epoch != 0, fence);
  if (!committed.ok()) return to_c(committed.status());
  *version = committed.value();
  return nullptr;
}

void fw_box_server_drop(fw_box_server* server, const fw_draft* draft) {
  if (server != nullptr && draft != nullptr) server->server.drop(to_draft(*draft));
}

fw_status* fw_box_server_snapshot(fw_box_server* server) {
  if (fw_status* const refused = refuse_null("write a snapshot", {{"server", server != nullptr}})) {
    return refused;
  }
  return to_c(server->server.snapshot());
}

uint64_t fw_box_server_metrics(const fw_box_server* server, char* buffer, uint64_t capacity) {
  if (server == nullptr) return 0;
  return farwrite::c_api::copy_text(server->server.metrics_text(), buffer, capacity);
}

void fw_box_server_stats(const fw_box_server* server, fw_box_server_counts* stats) {
  if (server == nullptr || stats == nullptr) return;
  const farwrite::box::ServerStats now = server->server.stats();
  fw_box_server_counts known = {};
  static_assert(sizeof(known) == sizeof(known.struct_size) + sizeof(now));
  known.clients = now.clients;
  known.segments = now.segments;
  known.segment_bytes = now.segment_bytes;
  known.changes = now.changes;
  known.bytes_changed = now.bytes_changed;
  known.refused = now.refused;
  known.switches = now.switches;
  known.copies_for_leases = now.copies_for_leases;
  known.leases = now.leases;
  known.leases_granted = now.leases_granted;
  known.snapshots = now.snapshots;
  known.snapshot_failures = now.snapshot_failures;
  farwrite::c_api::fill(*stats, known);
}

fw_status* fw_box_server_close(fw_box_server* server, uint64_t timeout_ns, int last_snapshot) {
  if (server == nullptr) return nullptr;
  return to_c(server->server.close(to_duration(timeout_ns), last_snapshot != 0));
}

void fw_box_server_release(fw_box_server* server) { delete server; }
