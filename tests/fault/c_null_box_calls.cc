// Of c_box.h.
#include "fault/c_null_calls.h"

namespace farwrite::fault {
namespace {

void never_told(void*, const fw_status*, const fw_version_id*) {
  ADD_FAILURE() << "callback of a refused call";
}
void never_listed(void*, const fw_segment_info*) { ADD_FAILURE() << "on_info of a refused call"; }

fw_status* post_null(fw_segment* segment, const fw_change* change) {
  return fw_segment_post(segment, change, 0, Unwritten<fw_completion>());
}

}  // namespace

NullCalls null_box_calls() {
  static const fw_draft draft = {};
  static fw_draft drafted = {};
  static fw_version_id id = {};
  static fw_slice slice = {};
  static std::uint64_t number = 7;
  static char bytes[8] = {};
  static fw_segment_spec named = {};
  static fw_change change = {}, without_memory = {}, unknown = {};
  named.struct_size = sizeof(named);
  change.struct_size = without_memory.struct_size = unknown.struct_size = sizeof(change);
  without_memory.operation = FW_WRITE;
  without_memory.memory_bytes = 8;
  unknown.operation = 99;
  auto* const server = unused<fw_box_server>();
  auto* const client = unused<fw_box_client>();
  auto* const segment = unused<fw_segment>();
  return {
      .refused =
          {
              {"fw_box_serve", [] { return fw_box_serve(nullptr, nullptr); }},
              {"fw_box_server_draft", [] { return fw_box_server_draft(nullptr, 1, &drafted); }},
              {"fw_box_server_draft", [=] { return fw_box_server_draft(server, 1, nullptr); }},
              {"fw_box_server_commit",
               [] { return fw_box_server_commit(nullptr, &draft, 0, 0, &number); }},
              {"fw_box_server_commit",
               [=] { return fw_box_server_commit(server, nullptr, 0, 0, &number); }},
              {"fw_box_server_commit",
               [=] { return fw_box_server_commit(server, &draft, 0, 0, nullptr); }},
              {"fw_box_server_snapshot", [] { return fw_box_server_snapshot(nullptr); }},
              {"fw_box_connect",
               [] { return fw_box_connect(nullptr, nullptr, 1, Unwritten<fw_box_client>()); }},
              {"fw_box_connect", [] { return fw_box_connect("127.0.0.1:1", nullptr, 1, nullptr); }},
              {"fw_box_create",
               [] { return fw_box_create(nullptr, &named, 0, Unwritten<fw_segment>()); }},
              {"fw_box_create",
               [=] { return fw_box_create(client, nullptr, 0, Unwritten<fw_segment>()); }},
              {"fw_box_create",
               [=] { return fw_box_create(client, &named, 0, Unwritten<fw_segment>()); }},
              {"fw_box_create", [=] { return fw_box_create(client, &named, 0, nullptr); }},
              {"fw_box_attach",
               [] { return fw_box_attach(nullptr, "n", 0, Unwritten<fw_segment>()); }},
              {"fw_box_attach",
               [=] { return fw_box_attach(client, nullptr, 0, Unwritten<fw_segment>()); }},
              {"fw_box_attach", [=] { return fw_box_attach(client, "n", 0, nullptr); }},
              {"fw_box_attach_key",
               [] { return fw_box_attach_key(nullptr, 1, Unwritten<fw_segment>()); }},
              {"fw_box_attach_key", [=] { return fw_box_attach_key(client, 1, nullptr); }},
              {"fw_box_list", [] { return fw_box_list(nullptr, "n", never_listed, nullptr); }},
              {"fw_box_list", [=] { return fw_box_list(client, "n", nullptr, nullptr); }},
              {"fw_box_allocate",
               [] { return fw_box_allocate(nullptr, 8, Unwritten<fw_region>()); }},
              {"fw_box_allocate", [=] { return fw_box_allocate(client, 8, nullptr); }},
              {"fw_segment_version", [] { return fw_segment_version(nullptr, &id); }},
              {"fw_segment_version", [=] { return fw_segment_version(segment, nullptr); }},
              {"fw_segment_chunk_versions",
               [] { return fw_segment_chunk_versions(nullptr, &number, 1, &number); }},
              {"fw_segment_chunk_versions",
               [=] { return fw_segment_chunk_versions(segment, nullptr, 1, &number); }},
              {"fw_segment_chunk_versions",
               [=] { return fw_segment_chunk_versions(segment, &number, 1, nullptr); }},
              {"fw_segment_read",
               [] { return fw_segment_read(nullptr, 0, bytes, 8, nullptr, nullptr); }},
              {"fw_segment_read",
               [=] { return fw_segment_read(segment, 0, nullptr, 8, nullptr, nullptr); }},
              {"fw_segment_post", [] { return post_null(nullptr, &change); }},
              {"fw_segment_post", [=] { return post_null(segment, nullptr); }},
              {"fw_segment_post", [=] { return post_null(segment, &without_memory); }},
              {"fw_segment_post", [=] { return post_null(segment, &change); }},
              {"fw_segment_post", [=] { return post_null(segment, &unknown); }},
              {"fw_segment_post", [=] { return fw_segment_post(segment, &change, 0, nullptr); }},
              {"fw_segment_wait", [] { return fw_segment_wait(nullptr, 1, 0, 0, &id); }},
              {"fw_segment_on_version",
               [] { return fw_segment_on_version(nullptr, 1, 0, never_told, nullptr, &number); }},
              {"fw_segment_on_version",
               [=] { return fw_segment_on_version(segment, 1, 0, nullptr, nullptr, &number); }},
              {"fw_segment_on_version",
               [=] { return fw_segment_on_version(segment, 1, 0, never_told, nullptr, nullptr); }},
              {"fw_segment_check_wait", [] { return fw_segment_check_wait(nullptr); }},
              {"fw_segment_lease", [] { return fw_segment_lease(nullptr, 0, &slice, &id); }},
              {"fw_segment_lease", [=] { return fw_segment_lease(segment, 0, nullptr, &id); }},
              {"fw_segment_lease", [=] { return fw_segment_lease(segment, 0, &slice, nullptr); }},
              {"fw_segment_view", [] { return fw_segment_view(nullptr, &slice, nullptr); }},
              {"fw_segment_view", [=] { return fw_segment_view(segment, nullptr, nullptr); }},
              {"fw_add_scaled",
               [] { return fw_add_scaled(FW_FLOAT32, nullptr, bytes, {1, 1, 0}, 2); }},
              {"fw_add_scaled",
               [] { return fw_add_scaled(FW_FLOAT32, bytes, nullptr, {1, 1, 0}, 2); }},
          },
      .nothing =
          {
              {"fw_box_server_endpoint",
               [] {
                 char endpoint[FW_NAME_BYTES] = "as it was";
                 fw_box_server_endpoint(nullptr, endpoint);
                 return std::string(endpoint) == "as it was";
               }},
              {"fw_box_server_endpoint",
               [=] { return fw_box_server_endpoint(server, nullptr), true; }},
              {"fw_box_server_drop", [] { return fw_box_server_drop(nullptr, &draft), true; }},
              {"fw_box_server_drop", [=] { return fw_box_server_drop(server, nullptr), true; }},
              {"fw_box_server_metrics",
               [] { return fw_box_server_metrics(nullptr, nullptr, 8) == 0; }},
              {"fw_box_server_close", [] { return fw_box_server_close(nullptr, 0, 1) == nullptr; }},
              {"fw_box_server_release", [] { return fw_box_server_release(nullptr), true; }},
              {"fw_box_server_stats", [=] { return fw_box_server_stats(server, nullptr), true; }},
              {"fw_box_server_stats",
               [] {
                 fw_box_server_counts stats = {};
                 stats.struct_size = sizeof(stats);
                 fw_box_server_stats(nullptr, &stats);
                 return stats.clients == 0;
               }},
              {"fw_box_server_info", [=] { return fw_box_server_info(client, nullptr), true; }},
              {"fw_box_server_info",
               [] {
                 fw_peer_info info = {};
                 info.struct_size = sizeof(info);
                 fw_box_server_info(nullptr, &info);
                 return info.name == nullptr;
               }},
              {"fw_box_client_release", [] { return fw_box_client_release(nullptr), true; }},
              {"fw_box_client_stats", [=] { return fw_box_client_stats(client, nullptr), true; }},
              {"fw_box_client_stats",
               [] {
                 fw_box_stats stats = {};
                 stats.struct_size = sizeof(stats);
                 fw_box_client_stats(nullptr, &stats);
                 return stats.reads == 0;
               }},
              {"fw_box_client_close", [] { return fw_box_client_close(nullptr, 0) == nullptr; }},
              {"fw_segment_get", [=] { return fw_segment_get(segment, nullptr), true; }},
              {"fw_segment_get",
               [] {
                 fw_segment_info info = {};
                 info.struct_size = sizeof(info);
                 fw_segment_get(nullptr, &info);
                 return info.key == 0;
               }},
              {"fw_segment_changed", [] { return fw_segment_changed(nullptr) == nullptr; }},
              {"fw_segment_cancel", [] { return fw_segment_cancel(nullptr, 1), true; }},
              {"fw_segment_detach", [] { return fw_segment_detach(nullptr) == nullptr; }},
              {"fw_segment_free", [] { return fw_segment_free(nullptr) == nullptr; }},
              {"fw_segment_release", [] { return fw_segment_release(nullptr), true; }},
          },
  };
}

}  // namespace farwrite::fault
