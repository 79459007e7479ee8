// The messages of pushes, and the status in the one that says that a sender has failed.
#include <cstring>
#include <string>
#include <string_view>

#include "peer_text.h"
#include "target.h"
#include "tensor/push_message.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::fuzz {
namespace {

using plugin::PushKind;
using plugin::PushMessage;

// Of a longer message of a failure, this much at least is passed on.
constexpr std::size_t kLongFailure = 1024;

enum Kind : std::uint8_t { kPush, kFailure, kKinds };

PushMessage must_decode(const std::string& bytes) {
  PushMessage message;
  require(plugin::decode(bytes, &message), "what we encode can be decoded");
  return message;
}

// What a receiver does with inline bytes at once.
void require_fits(const PushMessage& message) {
  require(plugin::describes(message.dtype, message.shape, message.payload.size()),
          "inline bytes are those of the type and the shape");
  tensorflow::Tensor tensor(tensorflow::cpu_allocator(), message.dtype, message.shape);
  require(tensor.TotalBytes() == message.payload.size(), "a tensor has room for its bytes");
  if (!message.payload.empty()) {
    std::memcpy(tensor.data(), message.payload.data(), message.payload.size());
  }
}

void run_push(std::string_view bytes) {
  PushMessage message;
  if (!plugin::decode(bytes, &message)) return;
  require(lies_in(bytes, message.key) && lies_in(bytes, message.payload),
          "a message refers to bytes that came");
  require(message.shape.dims() <= tensorflow::TensorShape::MaxDimensions(), "a rank is bounded");
  const bool is_tensor = message.kind == PushKind::kTensor;
  require(is_tensor || !(message.dead || message.proto || message.lent),
          "only a tensor is dead, serialized or lent");
  const bool has_bytes = is_tensor || message.kind == PushKind::kLanded;
  require(has_bytes || message.tensor_bytes == 0, "no bytes without a tensor");
  require(!message.dead || (!message.lent && message.tensor_bytes == 0),
          "a dead tensor has no bytes");
  if (has_bytes && !message.proto && !message.dead) {
    require(plugin::describes(message.dtype, message.shape, message.tensor_bytes),
            "the bytes, wherever they are, are those of the type and the shape");
    if (is_tensor && !message.lent) require_fits(message);
  }
  const std::string encoded = plugin::encode(message);
  require(encoded.size() == bytes.size(), "a message keeps its size on its way through us");
  const PushMessage again = must_decode(encoded);
  require(plugin::encode(again) == encoded, "decoding what we encoded changes nothing");
  require(again.key == message.key && again.payload == message.payload &&
              again.shape == message.shape && again.receiver == message.receiver &&
              again.sender == message.sender && again.step == message.step &&
              again.start == message.start && again.sent == message.sent &&
              again.lent == message.lent && again.proto == message.proto,
          "a message is the same on its way through us");
}

void run_failure(std::string_view bytes) {
  const absl::Status failure = plugin::decode_failure(bytes);
  require(!failure.ok(), "a failure is one, whatever its code");
  require(failure.message().size() <= bytes.size(), "its message came with it");
  const absl::Status again = plugin::decode_failure(plugin::encode_failure(failure));
  require(again.code() == failure.code(), "its code is the same on its way through us");
  require(failure.message().substr(0, again.message().size()) == again.message() &&
              (again.message().size() == failure.message().size() ||
               again.message().size() >= kLongFailure),
          "its message is the same, or the beginning of it");
}

void run(ByteView input) {
  Script script(input);
  const std::uint8_t kind = script.u8() % kKinds;
  const std::string_view bytes = text_of(script.rest());
  if (kind == kPush) return run_push(bytes);
  run_failure(bytes);
}

PushMessage matrix(PushKind kind) {
  PushMessage message;
  message.kind = kind;
  message.receiver = 0x1111;
  message.sender = 0x2222;
  message.step = 7;
  message.start = 1;
  message.dtype = tensorflow::DT_FLOAT;
  message.shape = tensorflow::TensorShape({2, 3});
  message.tensor_bytes = 24;
  message.key = "/job:ps/task:0;0000000000002222;/job:worker/task:0;edge_7_Read;0:0";
  return message;
}

Bytes seed(Kind kind, const std::string& bytes) {
  return concatenated({{static_cast<std::byte>(kind)}, bytes_of(bytes)});
}

Seeds seeds() {
  PushMessage in_line = matrix(PushKind::kTensor);
  in_line.payload = "012345678901234567890123";
  PushMessage dead = matrix(PushKind::kTensor);
  dead.dead = true;
  dead.tensor_bytes = 0;
  PushMessage lent = matrix(PushKind::kTensor);
  lent.lent = true;
  lent.wants_slot = true;
  PushMessage scalar = matrix(PushKind::kTensor);
  scalar.shape = tensorflow::TensorShape();
  scalar.tensor_bytes = 4;
  scalar.payload = "0123";
  PushMessage empty = matrix(PushKind::kTensor);
  empty.shape = tensorflow::TensorShape({0, 3});
  empty.tensor_bytes = 0;
  PushMessage text = matrix(PushKind::kTensor);
  text.dtype = tensorflow::DT_STRING;
  text.proto = true;
  text.payload = "a TensorProto";
  text.tensor_bytes = text.payload.size();
  PushMessage lent_text = text;
  lent_text.lent = true;
  lent_text.payload = {};
  PushMessage landed = matrix(PushKind::kLanded);
  landed.key = "0000000000002222;0:0";
  // What no sender says: their shapes would go unchecked.
  PushMessage dead_lent = dead;
  dead_lent.lent = true;
  PushMessage dead_landed = landed;
  dead_landed.dead = true;
  PushMessage gone = matrix(PushKind::kStepGone);
  gone.tensor_bytes = 0;
  PushMessage copy_failed = matrix(PushKind::kCopyFailed);
  copy_failed.tensor_bytes = 0;
  PushMessage claiming = matrix(PushKind::kPull);  // bytes that it does not bring
  const std::string why = plugin::encode_failure(absl::InternalError("the copy fails"));
  copy_failed.payload = why;
  return {{"inline", seed(kPush, plugin::encode(in_line))},
          {"dead", seed(kPush, plugin::encode(dead))},
          {"lent", seed(kPush, plugin::encode(lent))},
          {"landed", seed(kPush, plugin::encode(landed))},
          {"scalar", seed(kPush, plugin::encode(scalar))},
          {"empty", seed(kPush, plugin::encode(empty))},
          {"serialized", seed(kPush, plugin::encode(text))},
          {"lent-serialized", seed(kPush, plugin::encode(lent_text))},
          {"dead-lent", seed(kPush, plugin::encode(dead_lent))},
          {"dead-landed", seed(kPush, plugin::encode(dead_landed))},
          {"claiming", seed(kPush, plugin::encode(claiming))},
          {"step-gone", seed(kPush, plugin::encode(gone))},
          {"copy-failed", seed(kPush, plugin::encode(copy_failed))},
          {"failure", seed(kFailure, plugin::encode_failure(absl::AbortedError("the step ends")))}};
}

[[maybe_unused]] const bool kAdded = add_target({"push_message", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
