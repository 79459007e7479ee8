// Introductions: what any process that reaches a worker's gRPC port may send, and what it may
// answer.
#include <cstring>
#include <string>
#include <string_view>

#include "peer/meeting.h"
#include "peer_text.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using plugin::Introduction;
using tensorflow::RecvBufRequest;
using tensorflow::RecvBufResponse;

// The record in its place in a request, or in a response. Around it is a protobuf, which gRPC
// parses.
enum Kind : std::uint8_t { kRequest, kResponse, kKinds };

void require_refusal(const absl::Status& status) {
  require(absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status),
          "what cannot be read is an invalid argument, or of another version");
  require(!status.message().empty(), "a refusal says why");
}

void require_same(const Introduction& one, const Introduction& other) {
  require(one.server == other.server && one.task == other.task && one.refusal == other.refusal &&
              one.process.epoch == other.process.epoch &&
              std::memcmp(one.process.uuid, other.process.uuid, sizeof(one.process.uuid)) == 0 &&
              std::strcmp(one.process.endpoint, other.process.endpoint) == 0,
          "an introduction is the same on its way through us");
}

void require_sane(const Introduction& introduction, std::size_t bytes) {
  const fw_identity& process = introduction.process;
  const std::size_t endpoint = strnlen(process.endpoint, sizeof(process.endpoint));
  require(endpoint < sizeof(process.endpoint), "an endpoint ends");
  require(introduction.task.size() + introduction.refusal.size() + endpoint <= bytes,
          "an introduction has no more bytes than came");
  RecvBufRequest request;
  plugin::write_request(introduction, &request);
  require(plugin::is_meeting(request), "we take our own introduction for one");
  Introduction again;
  require(plugin::read_request(request, &again).ok(), "what we write can be read");
  require_same(introduction, again);
}

void run(ByteView input) {
  Script script(input);
  const std::uint8_t kind = script.u8() % kKinds;
  const std::string_view bytes = text_of(script.rest());
  Introduction introduction;
  absl::Status read;
  if (kind == kRequest) {
    RecvBufRequest request;
    plugin::write_request({}, &request);
    request.mutable_transport_options()->set_value(std::string(bytes));
    read = plugin::read_request(request, &introduction);
  } else {
    RecvBufResponse response;
    plugin::write_response({}, &response);
    response.mutable_transport_options()->set_value(std::string(bytes));
    read = plugin::read_response(response, &introduction);
  }
  if (!read.ok()) return require_refusal(read);
  require_sane(introduction, bytes.size());
}

Introduction worker() {
  Introduction introduction;
  introduction.task = "/job:worker/replica:0/task:1";
  introduction.server = 0x1111;
  introduction.process.epoch = 3;
  std::memset(introduction.process.uuid, 0x5a, sizeof(introduction.process.uuid));
  std::strcpy(introduction.process.endpoint, "127.0.0.1:7777");
  return introduction;
}

Bytes seed(Kind kind, const std::string& bytes) {
  return concatenated({{static_cast<std::byte>(kind)}, bytes_of(bytes)});
}

Seeds seeds() {
  Introduction refused = worker();
  refused.refusal = "the tokens differ";
  RecvBufRequest request;
  plugin::write_request(worker(), &request);
  RecvBufResponse response;
  plugin::write_response(refused, &response);
  return {{"request", seed(kRequest, std::string(request.transport_options().value()))},
          {"response", seed(kResponse, std::string(response.transport_options().value()))}};
}

[[maybe_unused]] const bool kAdded = add_target({"meeting", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
