#include "control/control_message.h"

#include <cstdint>

#include "absl/strings/cord.h"
#include "base/record.h"

namespace farwrite::plugin {

std::string encode(const ControlMessage& message) {
  RecordWriter record(ControlMessage::kHeadBytes + message.body.size());
  record.number(ControlMessage::kVersion);
  record.number(message.kind);
  record.number(message.method);
  record.number(static_cast<std::uint8_t>(message.ok ? 1 : 0));
  record.number(message.call);
  record.number(message.server);
  record.number(message.stream);
  record.number(message.position);
  record.number(message.body_bytes);
  record.raw(message.body);
  return record.bytes();
}

bool decode(std::string_view bytes, ControlMessage* message) {
  RecordReader record(bytes);
  if (record.number<std::uint8_t>() != ControlMessage::kVersion) return false;
  message->kind = record.number<ControlKind>();
  message->method = record.number<ControlMethod>();
  message->ok = record.number<std::uint8_t>() != 0;
  message->call = record.number<std::uint64_t>();
  message->server = record.number<std::uint64_t>();
  message->stream = record.number<std::uint64_t>();
  message->position = record.number<std::uint64_t>();
  message->body_bytes = record.number<std::uint64_t>();
  message->body = record.rest();
  if (!record.ok()) return false;
  return message->kind >= ControlKind::kCall && message->kind <= ControlKind::kEndStream &&
         message->method >= ControlMethod::kRegisterGraph &&
         message->method <= ControlMethod::kCloseContext &&
         message->body_bytes <= INT32_MAX &&  // protobuf's own limit
         (message->body.empty() || message->body.size() == message->body_bytes);
}

std::string encode_status(const absl::Status& status) {
  RecordWriter record(8 + status.message().size());
  record.number(static_cast<std::int32_t>(status.code()));
  record.text(status.message());
  status.ForEachPayload([&record](std::string_view url, const absl::Cord& payload) {
    record.text(url);
    record.text(std::string(payload));
  });
  return record.bytes();
}

absl::Status decode_status(std::string_view bytes) {
  RecordReader record(bytes);
  const auto code = static_cast<absl::StatusCode>(record.number<std::int32_t>());
  const std::string_view message = record.text();
  const bool known = code > absl::StatusCode::kOk && code <= absl::StatusCode::kUnauthenticated;
  absl::Status status(known ? code : absl::StatusCode::kUnknown, message);
  while (record.ok() && !record.rest().empty()) {
    const std::string_view url = record.text();
    const std::string_view payload = record.text();
    if (record.ok()) status.SetPayload(url, absl::Cord(payload));
  }
  return status;
}

}  // namespace farwrite::plugin
