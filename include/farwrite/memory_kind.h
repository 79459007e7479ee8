/// @file
/// MemoryKind: where memory lies, in the host's memory or on a GPU.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "farwrite/internal/namespace.h"
#include "farwrite/status.h"

FARWRITE_BEGIN

/// Where memory lies: in the host's memory, or on one of the GPUs that this process sees.
class MemoryKind {
 public:
  /// The host's memory.
  constexpr MemoryKind() = default;
  /// The memory of GPU `ordinal`, as the CUDA driver numbers them for this process
  /// (CUDA_VISIBLE_DEVICES). There is no GPU with a negative number: a call that gets such a kind
  /// returns kInvalidArgument.
  static constexpr MemoryKind cuda(int ordinal) { return MemoryKind(ordinal); }
  /// Parses "host", "cuda" (GPU 0) or "cuda:N". kInvalidArgument for anything else.
  static Result<MemoryKind> parse(std::string_view text);

  /// True for the memory of a GPU: the CPU must not touch it.
  constexpr bool on_gpu() const { return on_gpu_; }
  /// The number of the GPU; -1 for the host's memory.
  constexpr int ordinal() const { return ordinal_; }
  /// "host" or "cuda:0".
  std::string to_string() const;

  /// True if both are the host's memory, or that of one GPU.
  friend constexpr bool operator==(MemoryKind one, MemoryKind other) {
    return one.on_gpu_ == other.on_gpu_ && one.ordinal_ == other.ordinal_;
  }
  /// True if they differ.
  friend constexpr bool operator!=(MemoryKind one, MemoryKind other) { return !(one == other); }

 private:
  constexpr explicit MemoryKind(int ordinal) : on_gpu_(true), ordinal_(ordinal) {}

  bool on_gpu_ = false;
  int ordinal_ = -1;
};

inline Result<MemoryKind> MemoryKind::parse(std::string_view text) {
  constexpr std::string_view kCuda = "cuda";
  if (text == "host") return MemoryKind();
  if (text == kCuda) return cuda(0);
  int ordinal = -1;
  if (text.substr(0, kCuda.size()) == kCuda && text.size() > kCuda.size() + 1 &&
      text[kCuda.size()] == ':') {
    const std::string_view digits = text.substr(kCuda.size() + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    if (error == std::errc() && end == digits.data() + digits.size() && digits[0] != '-') {
      return cuda(ordinal);
    }
  }
  return Status::error(StatusCode::kInvalidArgument, {"read a memory kind"},
                       "\"" + std::string(text) + "\" is not a kind of memory",
                       "use \"host\", \"cuda\" or \"cuda:0\"");
}

inline std::string MemoryKind::to_string() const {
  return on_gpu() ? "cuda:" + std::to_string(ordinal_) : "host";
}

FARWRITE_END
