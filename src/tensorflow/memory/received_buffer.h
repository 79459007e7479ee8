// ReceivedBuffer: the memory of a tensor that another task sent, where it is not this process' send
// memory: the sender's own, mapped read-only (remote_bytes.cc), or a slot (tensor/receive.cc).
//
// Neither can be lent to a third process. The sender reuses its memory when this process, which
// holds its lease, has died; a third one might still look at it. A slot is for its sender to write.
// So a received tensor that is sent on is copied into registered memory: once, and all edges and
// steps that send it share the copy, which lives as long as the received tensor does. (What is
// written into another host's slot is written from where it lies, without a copy.)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/mutex.h"
#include "farwrite/c_api.h"
#include "memory/staging.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// Thread-safe.
class ReceivedBuffer : public tensorflow::TensorBuffer {
 public:
  // The buffer of the tensor, or that it is a view of; null if another allocator made it.
  static ReceivedBuffer* of(const tensorflow::Tensor& tensor);
  // The same, if nothing may write into it.
  static ReceivedBuffer* read_only(const tensorflow::Tensor& tensor);

  // A copy of this part of the buffer. Null if there is no room. `made`: by this call. The caller
  // holds a reference to the buffer. `verify`: something may have written into it all the same (a
  // ref variable), so compare the bytes.
  Staged copy(fw_device* device, const void* data, std::uint64_t bytes, bool verify, bool* made);
  // Lets go of the copies of all buffers: whether there was one.
  static bool release_copies();

  // A copy must stay like its original: with one, no kernel may write here, as in a peer's memory.
  bool OwnsMemory() const override { return writable_ && !copied_.load(); }
  tensorflow::TensorBuffer* root_buffer() override { return this; }
  std::size_t size() const override { return bytes_; }
  // So that TensorFlow's GPU does not wait on the caller's thread to copy from here.
  tensorflow::AllocatorMemoryType GetMemoryType() const override {
    return tensorflow::AllocatorMemoryType::kHostPageable;
  }

 protected:
  // `writable`: the memory is this process' own.
  ReceivedBuffer(void* data, std::size_t bytes, bool writable)
      : TensorBuffer(data), bytes_(bytes), writable_(writable) {}
  ~ReceivedBuffer() override;

 private:
  struct StagedPart {
    const char* begin = nullptr;  // of the original
    std::uint64_t bytes = 0;
    fw_device* device = nullptr;
    Staged memory;
  };

  Staged find(fw_device* device, const char* begin, std::uint64_t bytes, bool verify);
  void keep(StagedPart part);

  const std::size_t bytes_;
  const bool writable_;
  std::atomic<bool> copied_{false};
  // Held while bytes are copied: another edge that sends the tensor meanwhile waits for its copy.
  core::Mutex copying_{core::LockRank::kProgram, 2};
  // Under copying_ and that of all buffers with copies.
  core::Mutex mutex_{core::LockRank::kProgram};
  std::vector<StagedPart> parts_
      FW_GUARDED_BY(mutex_);  // the oldest first; together no larger than the buffer
};

}  // namespace farwrite::plugin
