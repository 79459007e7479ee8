// PrivateView: a private, copy-on-write view of bytes that lie in shared memory.
//
// What is written through it reaches nothing else, and nothing sees it through the shared mapping.
// Until a page is written it is the shared one, so a view costs no memory, and it shows the bytes
// only as long as the owner keeps them as they are: a lease has to outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::memory {

// Movable.
class PrivateView {
 public:
  // Of `bytes` in a segment of this process or a mapped one of a peer; the caller keeps that
  // mapping during the call. Of other memory it is a copy. kResourceExhausted.
  static Result<PrivateView> of(ByteView bytes);
  ~PrivateView();
  PrivateView(const PrivateView&) = delete;
  PrivateView& operator=(const PrivateView&) = delete;
  PrivateView(PrivateView&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        mapped_(other.mapped_),
        data_(other.data_),
        size_(other.size_) {}

  MutableByteView bytes() const { return {data_, size_}; }

 private:
  PrivateView() = default;

  void* base_ = nullptr;
  std::uint64_t mapped_ = 0;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace farwrite::memory
