// The rows of c_box.h.
#include <utility>

#include "c_api/handles.h"
#include "c_handles.h"
#include "fault/matrix_c_calls.h"
#include "fault/matrix_world.h"

namespace farwrite::fault {
namespace {

using W = MatrixWorld;

char c_box_bytes[32] = {};

fw_segment of(const box::Segment& segment) { return {.segment = segment, .spec = {}}; }
fw_draft of(const box::Draft& draft) {
  return {draft.key, draft.buffer, draft.bytes.data, draft.bytes.size};
}
fw_segment_spec c_box_spec() {
  fw_segment_spec spec = {};
  spec.struct_size = sizeof(spec);
  spec.name = "c other";
  spec.type = FW_FLOAT32;
  spec.rank = 1;
  spec.dims[0] = 8;
  return spec;
}
void detach(fw_segment* segment) { fw_status_free(finish(segment)); }
void take_version(void* answer, const fw_status* status, const fw_version_id* id) {
  const bool one = (status == nullptr) != (id == nullptr);
  static_cast<Answer*>(answer)->take(
      one ? Status(static_cast<StatusCode>(fw_status_code(status)), fw_status_message(status))
          : Status(StatusCode::kInternal, "neither a version nor an error"));
}

// The outcome of a call that writes a slice on success, and only then.
Status slice_of(fw_status* status, const fw_slice& slice) {
  if ((status == nullptr) != (slice.lease != nullptr)) {
    return Status(StatusCode::kInternal, "of the slice");
  }
  fw_lease_release(slice.lease);
  return status_of(status);
}

std::vector<Row> c_segment_rows() {
  return {
      fact("fw_segment_get",
           [](W& w) {
             const fw_segment segment = of(w.segment);
             fw_segment_info info = {};
             info.struct_size = sizeof(info);
             fw_segment_get(&segment, &info);
             return info.key;
           }),
      peer("fw_segment_version",
           [](W& w) {
             const fw_segment segment = of(w.segment);
             fw_version_id id = {};
             return status_of(fw_segment_version(&segment, &id));
           },
           {{"stopped", kOneSided}}),
      peer("fw_segment_chunk_versions",
           [](W& w) {
             const fw_segment segment = of(w.segment);
             std::uint64_t versions[4] = {}, count = 0;
             return status_of(fw_segment_chunk_versions(&segment, versions, 4, &count));
           },
           {{"stopped", kOneSided}}),
      peer("fw_segment_read",
           [](W& w) {
             const fw_segment segment = of(w.segment);
             Answer& released = w.answer("fw_segment_read: release");
             fw_read_options options = {};
             options.struct_size = sizeof(options);
             options.timeout_ns = limit_ns();
             options.release = Answer::take_end;
             options.owner = &released;
             return status_of(
                 fw_segment_read(&segment, 0, c_box_bytes, sizeof(c_box_bytes), &options, nullptr));
           },
           {{"stopped", kOneSided}}),
      peer("fw_segment_post",
           [](W& w) {
             fw_segment segment = of(w.segment);
             fw_change change = {};
             change.struct_size = sizeof(change);
             change.operation = FW_FILL;
             return w.answer("fw_segment_post").follow([&](fw_completion** end) {
               return fw_segment_post(&segment, &change, 0, end);
             });
           }),
      fact("fw_segment_changed",
           [](W& w) {
             const fw_completion pending{w.pending};
             return fw_segment_changed(&pending) == nullptr;
           }),
      peer("fw_segment_wait",
           [](W& w) {
             const fw_segment segment = of(w.segment);
             return status_of(fw_segment_wait(&segment, 99, 0, limit_ns(), nullptr));
           },
           {{"none", kLate}}),
      peer("fw_segment_on_version",
           [](W& w) {
             const fw_segment segment = of(w.segment);
             Answer& answer = w.answer("fw_segment_on_version");
             std::uint64_t wait = 0;
             const Status refused =
                 status_of(fw_segment_on_version(&segment, 99, 0, take_version, &answer, &wait));
             return refused.ok() ? answer.wait() : answer.refused(refused);
           },
           {{"none", kLate}}),
      fact("fw_segment_cancel",
           [](W& w) {
             const fw_segment segment = of(w.segment);
             fw_segment_cancel(&segment, 1);
           }),
      fact("fw_segment_check_wait",
           [](W& w) {
             const fw_segment segment = of(w.segment);
             return status_of(fw_segment_check_wait(&segment)).ok();
           }),
      peer("fw_segment_lease",
           [](W& w) {
             const fw_segment segment = of(w.segment);
             fw_slice slice = {};
             fw_version_id id = {};
             fw_status* const leased = fw_segment_lease(&segment, limit_ns(), &slice, &id);
             return slice_of(leased, slice);
           }),
      peer("fw_segment_view",
           [](W& w) {
             const fw_segment segment = of(w.segment);
             fw_slice slice = {};
             fw_status* const view = fw_segment_view(&segment, &slice, nullptr);
             return slice_of(view, slice);
           },
           {{"none", Outcome::by_fabric(kReturns, "Unsupported")},
            {"killed", Outcome::by_fabric("PeerDead", "Unsupported")},
            {"stopped", Outcome::by_fabric(kReturns, "Unsupported")},
            {"closed", Outcome::by_fabric("Unavailable", "Unsupported")},
            {"shut", {"Cancelled", "FailedPrecondition", "Unsupported"}},
            {"parent", {"Cancelled", "FailedPrecondition", "Unsupported"}}}),
      ending("fw_segment_detach",
             [](W& w) {
               fw_segment segment = of(w.segment);
               return status_of(fw_segment_detach(&segment));
             }),
      fact("fw_segment_release", [](W& w) { fw_segment_release(new fw_segment(of(w.segment))); }),
      peer("fw_segment_free",
           [](W& w) {
             fw_segment segment = of(w.c_freed_segment);
             return status_of(fw_segment_free(&segment));
           }),
      fact("fw_add_scaled",
           [](W&) {
             float to[2] = {}, from[2] = {};
             return status_of(fw_add_scaled(FW_FLOAT32, to, from, {0, 0, 2.0}, 2));
           }),
  };
}

std::vector<Row> c_client_rows() {
  return {
      fact("fw_box_connect",
           [](W& w) {
             const DeviceOptions wanted = matrix_options(w.fabric);
             if (w.fabric == "simulated") {  // which no option of C names
               box::ClientOptions options;
               options.device = wanted;
               options.timeout = limit();
               return box::Client::connect(w.peer_box, options).status();
             }
             fw_device_options options = {};
             options.struct_size = sizeof(options);
             options.fabrics = to_string(wanted.fabrics.at(0)).data();
             if (!wanted.token.secret().empty()) options.token = wanted.token.secret().c_str();
             options.encrypt = wanted.encrypt ? 1 : 0;
             const std::string address = w.peer_box.to_string();
             Output<fw_box_client> client;
             return client.check(
                 fw_box_connect(address.c_str(), &options, limit_ns(), client),
                 [](fw_box_client* connected) { fw_status_free(finish(connected, limit_ns())); });
           },
           {{"killed", kNoAnswer}, {"closed", kNoAnswer}, {"stopped", kSilent}}),
      peer("fw_box_create",
           [](W& w) {
             fw_box_client client{w.client};
             const fw_segment_spec spec = c_box_spec();
             Output<fw_segment> segment;
             return segment.check(fw_box_create(&client, &spec, 1, segment), detach);
           }),
      peer("fw_box_attach",
           [](W& w) {
             fw_box_client client{w.client};
             Output<fw_segment> segment;
             return segment.check(fw_box_attach(&client, "weights", limit_ns(), segment), detach);
           }),
      peer("fw_box_attach_key",
           [](W& w) {
             fw_box_client client{w.client};
             Output<fw_segment> segment;
             return segment.check(fw_box_attach_key(&client, w.segment.info().key, segment),
                                  detach);
           }),
      peer("fw_box_list",
           [](W& w) {
             fw_box_client client{w.client};
             return status_of(
                 fw_box_list(&client, "weights", [](void*, const fw_segment_info*) {}, nullptr));
           }),
      own("fw_box_allocate",
          [](W& w) {
            fw_box_client client{w.client};
            Output<fw_region> region;
            return region.check(fw_box_allocate(&client, 64, region), fw_region_release);
          }),
      fact("fw_box_server_info",
           [](W& w) {
             const fw_box_client client{w.client};
             fw_peer_info info = {};
             info.struct_size = sizeof(info);
             fw_box_server_info(&client, &info);
             return info.identity.epoch;
           }),
      count("fw_box_client_stats",
            [](W& w) {
              const fw_box_client client{w.client};
              fw_box_stats stats = {};
              stats.struct_size = sizeof(stats);
              fw_box_client_stats(&client, &stats);
              return w.counted(stats.changes == 0);
            }),
      ending("fw_box_client_close",
             [](W& w) {
               fw_box_client client{w.client};
               return status_of(fw_box_client_close(&client, limit_ns()));
             }),
      fact("fw_box_client_release",
           [](W& w) { fw_box_client_release(new fw_box_client{w.client}); }),
  };
}

std::vector<Row> c_server_rows() {
  return {
      fact("fw_box_serve",
           [](W&) {
             fw_device_options device = {};
             device.struct_size = sizeof(device);
             device.listen = "127.0.0.1:0";
             fw_box_options options = {};
             options.struct_size = sizeof(options);
             options.device = &device;
             options.pool = 2 << 20;
             options.threads = 1;
             Output<fw_box_server> server;
             return server.check(fw_box_serve(&options, server), [](fw_box_server* served) {
               fw_status_free(finish(served, limit_ns()));
             });
           }),
      fact("fw_box_server_endpoint",
           [](W& w) {
             const fw_box_server server{w.server};
             char endpoint[FW_NAME_BYTES] = {};
             fw_box_server_endpoint(&server, endpoint);
             return *endpoint;
           }),
      own("fw_box_server_draft",
          [](W& w) {
            fw_box_server server{w.server};
            fw_draft draft = {};
            const Status drafted = status_of(fw_box_server_draft(&server, w.drafted_key, &draft));
            if (drafted.ok()) fw_box_server_drop(&server, &draft);
            return drafted;
          }),
      own("fw_box_server_commit",
          [](W& w) {
            fw_box_server server{w.server};
            const fw_draft draft = of(w.c_draft);
            std::uint64_t version = 0;
            return status_of(fw_box_server_commit(&server, &draft, 0, 0, &version));
          }),
      fact("fw_box_server_drop",
           [](W& w) {
             fw_box_server server{w.server};
             const fw_draft draft = of(w.c_dropped);
             fw_box_server_drop(&server, &draft);
           }),
      own("fw_box_server_snapshot",
          [](W& w) {
            fw_box_server server{w.server};
            return status_of(fw_box_server_snapshot(&server));
          }),
      count("fw_box_server_metrics",
            [](W& w) {
              const fw_box_server server{w.server};
              return w.counted(fw_box_server_metrics(&server, nullptr, 0) == 0);
            }),
      ending("fw_box_server_close",
             [](W& w) {
               fw_box_server server{w.server};
               return status_of(fw_box_server_close(&server, limit_ns(), 0));
             }),
      fact("fw_box_server_release",
           [](W& w) { fw_box_server_release(new fw_box_server{w.server}); }),
      count("fw_box_server_stats",
            [](W& w) {
              const fw_box_server server{w.server};
              fw_box_server_counts stats = {};
              stats.struct_size = sizeof(stats);
              fw_box_server_stats(&server, &stats);
              return w.counted(stats.clients == 0);
            }),
  };
}

}  // namespace

std::vector<Row> matrix_c_box_rows() {
  std::vector<Row> rows;
  for (auto& part : {c_segment_rows(), c_client_rows(), c_server_rows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace farwrite::fault
