// LaneMemory: the registered buffers of one lane: what it receives into, what it sends from, and
// the words that flushes read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "fabric/verbs/protocol.h"
#include "fabric/verbs/verbs_library.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

// Thread-compatible. Not inherited by fork.
class LaneMemory {
 public:
  static Result<std::unique_ptr<LaneMemory>> create(VerbsLibrary& library, ibv_pd* domain,
                                                    std::uint32_t receives, std::uint32_t sends,
                                                    const std::string& device, bool iwarp);
  ~LaneMemory();
  LaneMemory(const LaneMemory&) = delete;
  LaneMemory& operator=(const LaneMemory&) = delete;

  std::byte* receive_buffer(std::uint32_t index) const { return base_ + index * kBounceBytes; }
  std::byte* send_buffer(std::uint32_t index) const {
    return base_ + (receives_ + index) * kBounceBytes;
  }
  std::uint32_t local_key() const { return buffers_region_->lkey; }
  // What the peer's flushes read, or add 0 to; nothing else looks at it.
  std::uint64_t flush_address() const { return reinterpret_cast<std::uintptr_t>(words_); }
  std::uint32_t flush_key() const { return words_region_->rkey; }
  // Where the answer to our own lands.
  std::byte* flush_answer() const { return base_ + (receives_ + sends_) * kBounceBytes; }

 private:
  LaneMemory(VerbsLibrary& library, std::uint32_t receives, std::uint32_t sends)
      : library_(library), receives_(receives), sends_(sends) {}

  VerbsLibrary& library_;
  const std::size_t receives_, sends_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::byte* words_ = nullptr;  // a page of its own, because the peer reaches it
  ibv_mr* buffers_region_ = nullptr;
  ibv_mr* words_region_ = nullptr;
};

}  // namespace farwrite::fabric::verbs
