// CallMessage: a call of one of TensorFlow's methods, its answer, or the end of what was called, as
// a message of a channel.
//
// A request and an answer have a head and a body. What fits travels inside the message. Else the
// body is lent with it, and before the body the head if even that does not fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace farwrite::plugin {

// The tag of these messages; pushes have tag 0.
inline constexpr std::uint32_t kCallTag = 1;

enum class CallKind : std::uint8_t { kCall = 1, kAnswer = 2, kCancel = 3, kEndStream = 4 };

// The methods of TensorFlow's services that travel. Their numbers are on the wire.
enum class Method : std::uint8_t {
  kRegisterGraph = 1,  // of WorkerService
  kDeregisterGraph = 2,
  kRunGraph = 3,
  kCleanupGraph = 4,
  kEnqueue = 5,  // of EagerService; also StreamingEnqueue
  kRunComponentFunction = 6,
  kCloseContext = 7,
  kRunStep = 8,  // of MasterService: the head is a StepTable, the body the bytes of its tensors
};

struct CallMessage {
  static constexpr std::uint8_t kVersion = 3;
  // Where the body begins: what kernels require of tensors.
  static constexpr std::uint64_t kAlignment = 64;
  // Of a head, and of a body: no machine has as much, and sums of these do not overflow.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;

  CallKind kind = CallKind::kCall;
  Method method = Method::kRunGraph;
  bool ok = true;            // of an answer; if not, its head is what encode_status() made
  std::uint64_t call = 0;    // the caller's number for it; never used again in its process
  std::uint64_t server = 0;  // incarnation of the server that is called
  // The caller's number for a stream, and how many calls of the stream came before. 0: of none.
  std::uint64_t stream = 0;
  std::uint64_t position = 0;
  std::uint64_t head_bytes = 0;
  std::uint64_t body_bytes = 0;
  // The head and the body; the head alone; or nothing. The rest is lent.
  std::string_view inside;

  template <typename Wire>
  void fields(Wire& wire);

  bool all_inside() const { return inside.size() == head_bytes + body_bytes; }
  bool head_inside() const { return inside.size() >= head_bytes; }
  // Of what is lent: where the body begins, and how many bytes it has.
  std::uint64_t body_at() const { return head_inside() ? 0 : aligned(head_bytes); }
  std::uint64_t lent_bytes() const { return all_inside() ? 0 : body_at() + body_bytes; }

  static std::uint64_t aligned(std::uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
};

std::string encode(const CallMessage& message);
// A view into `bytes`. False if it is malformed.
bool decode(std::string_view bytes, CallMessage* message);

// A status with its payloads: by them TensorFlow tells errors that follow from others.
std::string encode_status(const absl::Status& status);
// Whatever it says, it is a failure.
absl::Status decode_status(std::string_view bytes);

}  // namespace farwrite::plugin
