// The C ABI: the client of a box.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "c_api/handles.h"
#include "c_api/segment_info.h"

using farwrite::Status;
using farwrite::StatusCode;
using farwrite::box::Client;
using farwrite::box::ClientOptions;
using farwrite::box::Creation;
using farwrite::box::Segment;
using farwrite::box::SegmentInfo;
using farwrite::box::SegmentSpec;
using farwrite::c_api::hand_out;
using farwrite::c_api::refuse_null;
using farwrite::c_api::to_c;
using farwrite::c_api::to_duration;
using farwrite::c_api::to_spec;

namespace {

// Takes the attached segment over.
fw_status* hand_out_segment(farwrite::Result<Segment> attached, fw_segment** segment) {
  if (!attached.ok()) return to_c(attached.status());
  Segment& made = *attached;
  const fw_segment_spec spec = to_spec(made.info().spec);
  *segment = new fw_segment{std::move(made), spec};
  return nullptr;
}

}  // namespace

fw_segment_spec farwrite::c_api::to_spec(const SegmentSpec& spec) {
  fw_segment_spec c = {};
  c.struct_size = sizeof(c);
  c.name = spec.name.c_str();
  c.type = static_cast<uint32_t>(spec.type);
  c.rank = static_cast<uint32_t>(std::min<std::size_t>(spec.dims.size(), FW_MAX_SEGMENT_RANK));
  std::copy_n(spec.dims.begin(), c.rank, c.dims);
  c.description = spec.description.c_str();
  c.buffers = spec.buffers;
  c.temporary = spec.temporary ? 1 : 0;
  return c;
}

fw_segment_info farwrite::c_api::to_info(const SegmentInfo& info, const fw_segment_spec* spec) {
  fw_segment_info c = {};
  c.struct_size = sizeof(c);
  c.spec = spec;
  c.key = info.key;
  c.bytes = info.bytes;
  c.id = {info.epoch, info.version};
  c.attached = info.attached;
  c.silent = info.silent;
  c.age_ns = static_cast<uint64_t>(info.age.count());
  return c;
}

fw_status* fw_box_connect(const char* endpoint, const fw_device_options* device,
                          uint64_t timeout_ns, fw_box_client** client) {
  if (fw_status* const refused = refuse_null(
          "connect to a box", {{"endpoint", endpoint != nullptr}, {"client", client != nullptr}})) {
    return refused;
  }
  const auto server = farwrite::Endpoint::parse(endpoint);
  if (!server.ok()) return to_c(server.status());
  auto chosen = farwrite::c_api::to_options(device);
  if (!chosen.ok()) return to_c(chosen.status());
  ClientOptions options;
  options.device = *std::move(chosen);
  if (timeout_ns != 0) options.timeout = to_duration(timeout_ns);
  return hand_out(Client::connect(server.value(), options), client);
}

fw_status* fw_box_create(fw_box_client* client, const fw_segment_spec* spec, int open_or_create,
                         fw_segment** segment) {
  constexpr const char* kOperation = "create a segment";
  if (fw_status* const refused = refuse_null(kOperation, {{"client", client != nullptr},
                                                          {"spec", spec != nullptr},
                                                          {"segment", segment != nullptr}})) {
    return refused;
  }
  const auto sized = farwrite::c_api::taken("fw_segment_spec", *spec);
  if (!sized.ok()) return to_c(sized.status());
  const fw_segment_spec& c = sized.value();
  if (fw_status* const refused = refuse_null(kOperation, {{"name", c.name != nullptr}})) {
    return refused;
  }
  if (c.rank > FW_MAX_SEGMENT_RANK || c.type > FW_INT64) {
    return to_c(Status::error(
        StatusCode::kInvalidArgument, {kOperation},
        "its rank is " + std::to_string(c.rank) + " and its type " + std::to_string(c.type),
        "use a rank of at most 16 and a type of fw_element"));
  }
  SegmentSpec wanted;
  wanted.name = c.name;
  wanted.type = static_cast<farwrite::box::ElementType>(c.type);
  wanted.dims.assign(c.dims, c.dims + c.rank);
  if (c.description != nullptr) wanted.description = c.description;
  if (c.buffers != 0) wanted.buffers = c.buffers;
  wanted.temporary = c.temporary != 0;
  return hand_out_segment(
      client->client.create(wanted,
                            open_or_create != 0 ? Creation::kOpenOrCreate : Creation::kExclusive),
      segment);
}

fw_status* fw_box_attach(fw_box_client* client, const char* name, uint64_t timeout_ns,
                         fw_segment** segment) {
  if (fw_status* const refused =
          refuse_null("attach a segment", {{"client", client != nullptr},
                                           {"name", name != nullptr},
                                           {"segment", segment != nullptr}})) {
    return refused;
  }
  return hand_out_segment(client->client.attach(name, to_duration(timeout_ns)), segment);
}

fw_status* fw_box_attach_key(fw_box_client* client, uint64_t key, fw_segment** segment) {
  if (fw_status* const refused = refuse_null(
          "attach a segment", {{"client", client != nullptr}, {"segment", segment != nullptr}})) {
    return refused;
  }
  return hand_out_segment(client->client.attach(key), segment);
}

fw_status* fw_box_list(fw_box_client* client, const char* name,
                       void (*on_info)(void* context, const fw_segment_info* info), void* context) {
  if (fw_status* const refused = refuse_null(
          "list a box", {{"client", client != nullptr}, {"on_info", on_info != nullptr}})) {
    return refused;
  }
  std::vector<SegmentInfo> infos;
  if (name == nullptr) {
    auto listed = client->client.list();
    if (!listed.ok()) return to_c(listed.status());
    infos = *std::move(listed);
  } else {
    auto described = client->client.describe(name);
    if (!described.ok()) return to_c(described.status());
    infos.push_back(*std::move(described));
  }
  for (const SegmentInfo& info : infos) {
    const fw_segment_spec spec = to_spec(info.spec);
    const fw_segment_info c = farwrite::c_api::to_info(info, &spec);
    on_info(context, &c);
  }
  return nullptr;
}

fw_status* fw_box_allocate(fw_box_client* client, uint64_t bytes, fw_region** region) {
  if (fw_status* const refused =
          refuse_null("allocate", {{"client", client != nullptr}, {"region", region != nullptr}})) {
    return refused;
  }
  return hand_out(client->client.allocate(bytes), region);
}

void fw_box_server_info(const fw_box_client* client, fw_peer_info* info) {
  if (client == nullptr || info == nullptr) return;
  farwrite::c_api::fill(*info, to_c(client->client.server()));
}

void fw_box_client_stats(const fw_box_client* client, fw_box_stats* stats) {
  if (client == nullptr || stats == nullptr) return;
  const farwrite::box::ClientStats now = client->client.stats();
  fw_box_stats known = {};
  known.reads = now.reads;
  known.read_retries = now.read_retries;
  known.leased_reads = now.leased_reads;
  known.changes = now.changes;
  known.staged_bytes = now.staged_bytes;
  known.leases = now.leases;
  farwrite::c_api::fill(*stats, known);
}

fw_status* fw_box_client_close(fw_box_client* client, uint64_t timeout_ns) {
  if (client == nullptr) return nullptr;
  Client closed = client->client;  // the handle may go with a callback
  return to_c(closed.close(to_duration(timeout_ns)));
}

void fw_box_client_release(fw_box_client* client) { delete client; }
