// LandedTensor: a tensor in its slot. The slot is granted again when this goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farwrite/bytes.h"

namespace farwrite::transfer {

class Engine;
struct LandingSlot;

// Moves, and does not copy. May outlive the channel and the peer; then it just frees the memory.
// Thread-compatible. Does nothing in a forked child.
class LandedTensor {
 public:
  LandedTensor() = default;
  LandedTensor(std::shared_ptr<Engine> engine, std::shared_ptr<LandingSlot> slot,
               std::uint64_t bytes, std::vector<std::byte> description)
      : engine_(std::move(engine)),
        slot_(std::move(slot)),
        bytes_(bytes),
        description_(std::move(description)) {}
  LandedTensor(LandedTensor&&) noexcept = default;
  LandedTensor& operator=(LandedTensor&& other) noexcept;
  ~LandedTensor() { give_back(); }

  bool valid() const { return slot_ != nullptr; }
  const std::string& edge() const;  // its key
  // 64-byte aligned memory of this process, which the peer does not write until the slot is granted
  // again.
  std::byte* data() const;
  std::uint64_t bytes() const { return bytes_; }
  ByteView description() const { return {description_.data(), description_.size()}; }

  // Something looks at the tensor. Once.
  void view();
  // The tensor is not what its edge carries: it counts as malformed, and its slot is granted again.
  void refuse();

 private:
  void give_back();

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<LandingSlot> slot_;
  std::uint64_t bytes_ = 0;
  std::vector<std::byte> description_;
};

}  // namespace farwrite::transfer
