#include "call/call_message.h"

#include "absl/strings/cord.h"
#include "base/record.h"

namespace farwrite::plugin {
namespace {

constexpr std::size_t kFieldBytes = 52;

}  // namespace

std::string encode(const CallMessage& message) {
  RecordWriter record(kFieldBytes + message.inside.size());
  record.number(CallMessage::kVersion);
  record.number(message.kind);
  record.number(message.method);
  record.number(static_cast<std::uint8_t>(message.ok ? 1 : 0));
  record.number(message.call);
  record.number(message.server);
  record.number(message.stream);
  record.number(message.position);
  record.number(message.head_bytes);
  record.number(message.body_bytes);
  record.raw(message.inside);
  return record.bytes();
}

bool decode(std::string_view bytes, CallMessage* message) {
  RecordReader record(bytes);
  if (record.number<std::uint8_t>() != CallMessage::kVersion) return false;
  message->kind = record.number<CallKind>();
  message->method = record.number<Method>();
  message->ok = record.number<std::uint8_t>() != 0;
  message->call = record.number<std::uint64_t>();
  message->server = record.number<std::uint64_t>();
  message->stream = record.number<std::uint64_t>();
  message->position = record.number<std::uint64_t>();
  message->head_bytes = record.number<std::uint64_t>();
  message->body_bytes = record.number<std::uint64_t>();
  message->inside = record.rest();
  if (!record.ok()) return false;
  if (message->kind < CallKind::kCall || message->kind > CallKind::kEndStream) return false;
  if (message->method < Method::kRegisterGraph || message->method > Method::kRunStep) return false;
  if (message->head_bytes > CallMessage::kMostBytes ||
      message->body_bytes > CallMessage::kMostBytes) {
    return false;
  }
  const std::uint64_t inside = message->inside.size();
  return inside == 0 || inside == message->head_bytes || message->all_inside();
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
