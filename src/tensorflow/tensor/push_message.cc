#include "tensor/push_message.h"

#include "base/record.h"
#include "tensorflow/core/framework/types.h"

namespace farwrite::plugin {
namespace {

constexpr std::uint8_t kDead = 1;
constexpr std::uint8_t kWantsSlot = 2;
constexpr std::uint8_t kProto = 4;
constexpr std::uint8_t kLent = 8;
constexpr std::size_t kMaxFailureBytes = 1024;

}  // namespace

template <typename Wire>
void PushMessage::fields(Wire& wire) {
  auto flags = static_cast<std::uint8_t>((dead ? kDead : 0) | (wants_slot ? kWantsSlot : 0) |
                                         (proto ? kProto : 0) | (lent ? kLent : 0));
  auto rank = static_cast<std::uint8_t>(shape.dims());
  auto type = static_cast<std::int32_t>(dtype);
  if constexpr (Wire::kReads) shape = tensorflow::TensorShape();
  wire(core::constant(kVersion, "another version"), kind, flags, rank, type, receiver, sender, step,
       sent, start, tensor_bytes, ShapeField{shape, rank}, core::sized(key, SIZE_MAX),
       core::rest(payload));
  if constexpr (Wire::kReads) {
    dead = (flags & kDead) != 0;
    wants_slot = (flags & kWantsSlot) != 0;
    proto = (flags & kProto) != 0;
    lent = (flags & kLent) != 0;
    dtype = static_cast<tensorflow::DataType>(type);
    wire.require(kind >= PushKind::kTensor && kind <= PushKind::kCopyFailed, "an unknown kind");
    const bool is_tensor = kind == PushKind::kTensor;
    if (!is_tensor) wire.require(!dead && !proto && !lent, "flags of a tensor");
    if (dead) wire.require(!proto && !lent && tensor_bytes == 0, "bytes of a dead tensor");
    if (!is_tensor && kind != PushKind::kLanded) {
      wire.require(tensor_bytes == 0, "bytes without a tensor");
      return;
    }
    wire.require(payload.size() == (is_tensor && !lent ? tensor_bytes : 0), "other bytes");
    if (proto || dead) return;
    wire.require(describes(dtype, shape, tensor_bytes), "its size is not that of its shape");
  }
}

std::string encode(const PushMessage& message) {
  return to_record(message, 72 + 8 * static_cast<std::size_t>(message.shape.dims()) +
                                message.key.size() + message.payload.size());
}

bool decode(std::string_view bytes, PushMessage* message) { return from_record(bytes, *message); }

bool describes(tensorflow::DataType dtype, const tensorflow::TensorShape& shape,
               std::uint64_t bytes) {
  if (!tensorflow::DataTypeCanUseMemcpy(dtype)) return false;
  const std::uint64_t element = tensorflow::DataTypeSize(dtype);
  const std::uint64_t elements = static_cast<std::uint64_t>(shape.num_elements());
  if (element == 0 || elements > UINT64_MAX / element) return false;
  return bytes == elements * element;
}

namespace {

struct FailureRecord {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view why;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(code, core::rest(why));
  }
};

}  // namespace

std::string encode_failure(const absl::Status& status) {
  const std::string_view why = status.message().substr(0, kMaxFailureBytes);
  return to_record(FailureRecord{status.code(), why}, 8 + why.size());
}

absl::Status decode_failure(std::string_view payload) {
  FailureRecord record;
  (void)from_record(payload, record);
  // Whatever it says, it is a failure.
  return absl::Status(
      record.code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : record.code, record.why);
}

}  // namespace farwrite::plugin
