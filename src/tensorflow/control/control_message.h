// ControlMessage: one of TensorFlow's control calls, its answer, or the end of what was called, as
// a message of a channel. A body that is too long for a message is lent with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace farwrite::plugin {

// The tag of these messages; pushes have tag 0.
inline constexpr std::uint32_t kControlTag = 1;

enum class ControlKind : std::uint8_t { kCall = 1, kAnswer = 2, kCancel = 3, kEndStream = 4 };

// The methods of TensorFlow's WorkerService and EagerService that travel. Their numbers are on the
// wire.
enum class ControlMethod : std::uint8_t {
  kRegisterGraph = 1,
  kDeregisterGraph = 2,
  kRunGraph = 3,
  kCleanupGraph = 4,
  kEnqueue = 5,  // also StreamingEnqueue
  kRunComponentFunction = 6,
  kCloseContext = 7,
};

struct ControlMessage {
  static constexpr std::uint8_t kVersion = 2;
  static constexpr std::size_t kHeadBytes = 44;  // what encode() puts before the body

  ControlKind kind = ControlKind::kCall;
  ControlMethod method = ControlMethod::kRunGraph;  // of a call
  std::uint64_t call = 0;    // the caller's number for it; never used again in its process
  std::uint64_t server = 0;  // incarnation of the server that is called
  // The caller's number for a stream, and how many calls of the stream came before. 0: of none.
  std::uint64_t stream = 0;
  std::uint64_t position = 0;
  std::uint64_t body_bytes = 0;
  // The serialized request; the serialized response, or what encode_status() made of an error.
  std::string_view body;  // empty if it is lent
  bool ok = true;         // of an answer
};

std::string encode(const ControlMessage& message);
// A view into `bytes`. False if it is malformed.
bool decode(std::string_view bytes, ControlMessage* message);

// A status with its payloads: by them TensorFlow tells errors that follow from others.
std::string encode_status(const absl::Status& status);
// Whatever it says, it is a failure.
absl::Status decode_status(std::string_view bytes);

}  // namespace farwrite::plugin
