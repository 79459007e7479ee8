#include "peer/meeting.h"

#include <algorithm>
#include <cstring>

#include "base/record.h"
#include "google/protobuf/any.pb.h"

namespace farwrite::plugin {
namespace {

constexpr char kMeetingUrl[] = "type.googleapis.com/farwrite.Meeting";
constexpr char kMeetingKey[] = "farwrite: meeting";
// Rises with PushMessage::kVersion, and with what a peer is expected to do.
constexpr std::uint16_t kVersion = 6;

void write(const Introduction& introduction, google::protobuf::Any* any) {
  const fw_identity& process = introduction.process;
  RecordWriter record(128);
  record.number(kVersion);
  record.number(introduction.server);
  record.raw({reinterpret_cast<const char*>(process.uuid), sizeof(process.uuid)});
  record.number(process.epoch);
  record.text(introduction.task);
  record.text(process.endpoint);
  record.text(introduction.refusal);
  any->set_type_url(kMeetingUrl);
  any->set_value(record.bytes());
}

absl::Status read(const google::protobuf::Any& any, Introduction* introduction) {
  const std::string value(any.value());
  RecordReader record(value);
  const auto version = record.number<std::uint16_t>();
  if (record.ok() && version != kVersion) {
    return absl::FailedPreconditionError("Farwrite: the peer's plug-in uses handshake version " +
                                         std::to_string(version) + ", this one uses " +
                                         std::to_string(kVersion) +
                                         "; install the same Farwrite version on every task");
  }
  introduction->server = record.number<std::uint64_t>();
  const std::string_view uuid = record.raw(sizeof(introduction->process.uuid));
  if (record.ok()) std::memcpy(introduction->process.uuid, uuid.data(), uuid.size());
  introduction->process.epoch = record.number<std::uint64_t>();
  introduction->task = std::string(record.text());
  const std::string_view endpoint = record.text();
  introduction->refusal = std::string(record.text());
  if (!record.ok() || endpoint.size() >= sizeof(introduction->process.endpoint)) {
    return absl::InvalidArgumentError("Farwrite: a peer's introduction cannot be read");
  }
  std::memset(introduction->process.endpoint, 0, sizeof(introduction->process.endpoint));
  std::copy(endpoint.begin(), endpoint.end(), introduction->process.endpoint);
  return absl::OkStatus();
}

}  // namespace

void write_request(const Introduction& introduction, tensorflow::RecvBufRequest* request) {
  request->set_buf_rendezvous_key(kMeetingKey);
  write(introduction, request->mutable_transport_options());
}

bool is_meeting(const tensorflow::RecvBufRequest& request) {
  return request.transport_options().type_url() == kMeetingUrl;
}

absl::Status read_request(const tensorflow::RecvBufRequest& request, Introduction* introduction) {
  return read(request.transport_options(), introduction);
}

void write_response(const Introduction& introduction, tensorflow::RecvBufResponse* response) {
  write(introduction, response->mutable_transport_options());
}

absl::Status read_response(const tensorflow::RecvBufResponse& response,
                           Introduction* introduction) {
  if (response.transport_options().type_url() != kMeetingUrl) {
    return absl::UnimplementedError("the peer does not support the plug-in's handshake");
  }
  return read(response.transport_options(), introduction);
}

}  // namespace farwrite::plugin
