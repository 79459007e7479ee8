// PushMessage: what a push says of its tensor. It is the message of a channel notification, and the
// bytes of the tensor follow it or come as a lease with it; or it is the description of a tensor
// that lands in a slot.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.pb.h"

namespace farwrite::plugin {

enum class PushKind : std::uint8_t {
  kTensor = 1,    // it follows, or is lent; also dead tensors and control edges
  kLanded = 2,    // its bytes are in a slot, and this is its description: the key is the instance
                  // alone, see split_key()
  kPull = 3,      // ask for it by RecvTensor
  kStepGone = 4,  // the sender has cleaned the step up: forget what nothing took of this start and
                  // those before
  // Of collectives.
  kWithdrawn = 5,   // the sender takes its last push under this key back
  kStepFailed = 6,  // the sender's part has failed, with the status that follows: wait no more
  // Of a backlog, see backlog.h.
  kHold = 7,    // keep what you have and say kPull, until
  kResume = 8,  // push again
  // Of tensors in the memory of a device.
  kCopyFailed = 9,  // there is no tensor: it could not be copied, by the status that follows
};

// The identity of a tensor is that of TensorFlow's rendezvous: the receiving server's incarnation,
// the step, and the full rendezvous key, which holds the sender's incarnation, both devices, the
// edge and its frame and iteration. The type and the shape are the metadata of the paper "RPC
// Considered Harmful", section 3.3. Its remote address does not travel: a lease replaces it.
struct PushMessage {
  static constexpr std::uint8_t kVersion = 5;

  PushKind kind = PushKind::kTensor;
  bool dead = false;
  bool proto = false;          // the bytes are a TensorProto
  bool lent = false;           // they are lent with the message; else they follow, or are in a slot
  bool wants_slot = false;     // more of this size will come: have memory waiting
  std::uint64_t receiver = 0;  // incarnation of the server it is for
  std::uint64_t sender = 0;    // incarnation of the server it is from
  std::int64_t step = 0;
  std::int64_t sent = 0;    // see TransferLog::start()
  std::uint64_t start = 0;  // which start of the step at the sender; rises, 0 in collectives
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;
  std::uint64_t tensor_bytes = 0;
  std::string_view key;
  std::string_view payload;  // the bytes that follow

  template <typename Wire>
  void fields(Wire& wire);
};

// Whether a tensor of this type, one whose bytes can be copied, and shape has so many bytes.
bool describes(tensorflow::DataType dtype, const tensorflow::TensorShape& shape,
               std::uint64_t bytes);

std::string encode(const PushMessage& message);
// Views into `bytes`. False if it is malformed.
bool decode(std::string_view bytes, PushMessage* message);

// The payload of kStepFailed and kCopyFailed.
std::string encode_failure(const absl::Status& status);
absl::Status decode_failure(std::string_view payload);

}  // namespace farwrite::plugin
