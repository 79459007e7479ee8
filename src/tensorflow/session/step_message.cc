#include "session/step_message.h"

#include "base/record.h"

namespace farwrite::plugin {
namespace {

constexpr std::size_t kHeadBytes = 48;

}  // namespace

std::string encode(const StepMessage& message) {
  RecordWriter record(kHeadBytes + message.inside.size());
  record.number(StepMessage::kVersion);
  record.number(message.kind);
  record.number(static_cast<std::uint8_t>(message.ok ? 1 : 0));
  record.number(message.call);
  record.number(message.server);
  record.number(message.table_bytes);
  record.number(message.tensor_bytes);
  record.raw(message.inside);
  return record.bytes();
}

bool decode(std::string_view bytes, StepMessage* message) {
  RecordReader record(bytes);
  if (record.number<std::uint8_t>() != StepMessage::kVersion) return false;
  message->kind = record.number<StepKind>();
  message->ok = record.number<std::uint8_t>() != 0;
  message->call = record.number<std::uint64_t>();
  message->server = record.number<std::uint64_t>();
  message->table_bytes = record.number<std::uint64_t>();
  message->tensor_bytes = record.number<std::uint64_t>();
  message->inside = record.rest();
  if (!record.ok()) return false;
  if (message->kind < StepKind::kCall || message->kind > StepKind::kCancel) return false;
  if (message->table_bytes > StepMessage::kMostBytes ||
      message->tensor_bytes > StepMessage::kMostBytes) {
    return false;
  }
  const std::uint64_t inside = message->inside.size();
  return inside == 0 || inside == message->table_bytes || message->all_inside();
}

}  // namespace farwrite::plugin
