#include "tensor/push_message.h"

#include "base/record.h"
#include "tensorflow/core/framework/types.h"

namespace farwrite::plugin {
namespace {

constexpr std::uint8_t kDead = 1;
constexpr std::uint8_t kWantsSlot = 2;
constexpr std::size_t kMaxFailureBytes = 1024;

}  // namespace

std::string encode(const PushMessage& message) {
  RecordWriter record(72 + 8 * static_cast<std::size_t>(message.shape.dims()) + message.key.size() +
                      message.payload.size());
  record.number(PushMessage::kVersion);
  record.number(message.kind);
  record.number(static_cast<std::uint8_t>((message.dead ? kDead : 0) |
                                          (message.wants_slot ? kWantsSlot : 0)));
  record.number(static_cast<std::uint8_t>(message.shape.dims()));
  record.number(static_cast<std::int32_t>(message.dtype));
  record.number(message.receiver);
  record.number(message.sender);
  record.number(message.step);
  record.number(message.sent);
  record.number(message.start);
  record.number(message.tensor_bytes);
  for (int axis = 0; axis < message.shape.dims(); ++axis) {
    record.number(static_cast<std::int64_t>(message.shape.dim_size(axis)));
  }
  record.text(message.key);
  record.raw(message.payload);
  return record.bytes();
}

bool describes(tensorflow::DataType dtype, const tensorflow::TensorShape& shape,
               std::uint64_t bytes) {
  if (!tensorflow::DataTypeCanUseMemcpy(dtype)) return false;
  const std::uint64_t element = tensorflow::DataTypeSize(dtype);
  const std::uint64_t elements = static_cast<std::uint64_t>(shape.num_elements());
  if (element == 0 || elements > UINT64_MAX / element) return false;
  return bytes == elements * element;
}

bool decode(std::string_view bytes, PushMessage* message) {
  RecordReader record(bytes);
  if (record.number<std::uint8_t>() != PushMessage::kVersion) return false;
  message->kind = record.number<PushKind>();
  const std::uint8_t flags = record.number<std::uint8_t>();
  message->dead = (flags & kDead) != 0;
  message->wants_slot = (flags & kWantsSlot) != 0;
  const std::uint8_t rank = record.number<std::uint8_t>();
  message->dtype = static_cast<tensorflow::DataType>(record.number<std::int32_t>());
  message->receiver = record.number<std::uint64_t>();
  message->sender = record.number<std::uint64_t>();
  message->step = record.number<std::int64_t>();
  message->sent = record.number<std::int64_t>();
  message->start = record.number<std::uint64_t>();
  message->tensor_bytes = record.number<std::uint64_t>();
  message->shape = tensorflow::TensorShape();
  for (int axis = 0; axis < rank; ++axis) {
    const std::int64_t size = record.number<std::int64_t>();
    if (!record.ok() || !message->shape.AddDimWithStatus(size).ok()) return false;
  }
  message->key = record.text();
  message->payload = record.rest();
  if (!record.ok()) return false;

  const bool plain = message->kind == PushKind::kInline || message->kind == PushKind::kAlias ||
                     message->kind == PushKind::kLanded;
  if (!plain || message->dead) return true;
  if (!describes(message->dtype, message->shape, message->tensor_bytes)) return false;
  const std::uint64_t inside = message->kind == PushKind::kInline ? message->tensor_bytes : 0;
  return message->payload.size() == inside;
}

std::string encode_failure(const absl::Status& status) {
  const std::string_view why = status.message();
  RecordWriter record(8 + why.size());
  record.number(static_cast<std::int32_t>(status.code()));
  record.raw(why.substr(0, kMaxFailureBytes));
  return record.bytes();
}

absl::Status decode_failure(std::string_view payload) {
  RecordReader record(payload);
  const auto code = static_cast<absl::StatusCode>(record.number<std::int32_t>());
  // Whatever it says, it is a failure.
  return absl::Status(code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : code,
                      record.rest());
}

}  // namespace farwrite::plugin
