#include "peer/meeting.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/record.h"
#include "google/protobuf/any.pb.h"

namespace farwrite::plugin {
namespace {

constexpr char kMeetingUrl[] = "type.googleapis.com/farwrite.Meeting";
constexpr char kMeetingKey[] = "farwrite: meeting";
// Rises with PushMessage::kVersion, and with what a peer is expected to do.
constexpr std::uint16_t kVersion = 7;

struct IntroductionRecord {
  std::uint16_t version = kVersion;
  std::uint64_t server = 0;
  std::array<std::uint8_t, sizeof(fw_identity::uuid)> uuid{};
  std::uint64_t epoch = 0;
  std::string_view task, endpoint, refusal;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(version);
    wire.require(version == kVersion, "another version");
    wire(server, uuid, epoch, core::sized(task, SIZE_MAX),
         core::sized(endpoint, sizeof(fw_identity::endpoint) - 1), core::sized(refusal, SIZE_MAX));
  }
};

void write(const Introduction& introduction, google::protobuf::Any* any) {
  const fw_identity& process = introduction.process;
  IntroductionRecord record;
  record.server = introduction.server;
  std::copy(std::begin(process.uuid), std::end(process.uuid), record.uuid.begin());
  record.epoch = process.epoch;
  record.task = introduction.task;
  record.endpoint = process.endpoint;
  record.refusal = introduction.refusal;
  any->set_type_url(kMeetingUrl);
  any->set_value(to_record(record, 128));
}

absl::Status read(const google::protobuf::Any& any, Introduction* introduction) {
  const std::string value(any.value());
  IntroductionRecord record;
  record.version = 0;
  const bool whole = from_record(value, record);
  if (!whole && record.version != kVersion && value.size() >= sizeof(record.version)) {
    return absl::FailedPreconditionError("Farwrite: the peer's plug-in uses handshake version " +
                                         std::to_string(record.version) + ", this one uses " +
                                         std::to_string(kVersion) +
                                         "; install the same Farwrite version on every task");
  }
  if (!whole) {
    return absl::InvalidArgumentError("Farwrite: a peer's introduction cannot be read");
  }
  fw_identity& process = introduction->process;
  std::copy(record.uuid.begin(), record.uuid.end(), process.uuid);
  process.epoch = record.epoch;
  std::fill(std::begin(process.endpoint), std::end(process.endpoint), '\0');
  std::copy(record.endpoint.begin(), record.endpoint.end(), process.endpoint);
  introduction->server = record.server;
  introduction->task = record.task;
  introduction->refusal = record.refusal;
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
