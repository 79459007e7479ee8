// StepMessage: a step that a client asks a master to run, the answer, or the cancellation, as a
// message of a channel. Its body is a table (StepTable), and the bytes of tensors.
//
// A body that fits travels inside the message. Of a longer one the bytes of the tensors are lent
// with the message, and with them the table if even that does not fit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farwrite::plugin {

// The tag of these messages; pushes have tag 0 and control messages tag 1.
inline constexpr std::uint32_t kStepTag = 2;

enum class StepKind : std::uint8_t { kCall = 1, kAnswer = 2, kCancel = 3 };

struct StepMessage {
  static constexpr std::uint8_t kVersion = 1;
  // Where the bytes of tensors begin, and each tensor's within them: what kernels require.
  static constexpr std::uint64_t kAlignment = 64;
  // Of a table, and of tensors: no machine has as much, and sums of these do not overflow.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;

  StepKind kind = StepKind::kCall;
  bool ok = true;                  // of an answer; if not, the table is what encode_status() made
  std::uint64_t call = 0;          // the client's number for it; never used again in its process
  std::uint64_t server = 0;        // of a call: the incarnation of the server that is called
  std::uint64_t table_bytes = 0;   // none in a cancellation
  std::uint64_t tensor_bytes = 0;  // of all tensors, with the gaps between them
  // The table and the bytes of the tensors; the table alone; or nothing. The rest is lent.
  std::string_view inside;

  bool all_inside() const { return inside.size() == table_bytes + tensor_bytes; }
  bool table_inside() const { return inside.size() >= table_bytes; }
  // Of what is lent: where the bytes of the tensors begin, and how many bytes it has.
  std::uint64_t tensors_at() const { return table_inside() ? 0 : aligned(table_bytes); }
  std::uint64_t lent_bytes() const { return all_inside() ? 0 : tensors_at() + tensor_bytes; }

  static std::uint64_t aligned(std::uint64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
};

std::string encode(const StepMessage& message);
// A view into `bytes`. False if it is malformed.
bool decode(std::string_view bytes, StepMessage* message);

}  // namespace farwrite::plugin
