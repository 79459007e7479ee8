// DeviceAllocator: TensorFlow's allocator of one device's memory.
//
// As a GPU's allocator it gives memory again at once when it is freed, although computations that
// use it may still wait in the device's compute stream. What uses the memory next has to wait for
// that stream.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "device_memory.h"
#include "tensorflow/core/framework/allocator.h"

namespace fartest {

class DeviceAllocator final : public tensorflow::Allocator {
 public:
  explicit DeviceAllocator(const DeviceMemory* memory);

  std::string Name() override { return "FARTEST"; }
  // Null where no memory is left.
  void* AllocateRaw(std::size_t alignment, std::size_t bytes) override;
  void DeallocateRaw(void* address) override;
  tsl::AllocatorMemoryType GetMemoryType() const override {
    return tsl::AllocatorMemoryType::kDevice;
  }

  // Between the two a copy writes there. Who frees the memory meanwhile is counted, and the memory
  // is given again only afterwards.
  void begin_write(const void* address);
  void end_write(const void* address);

 private:
  struct Block {
    std::size_t bytes = 0;
    int writers = 0;
    bool freed = false;
  };
  using Blocks = std::map<std::size_t, Block>;  // by offset

  // The block that `address` is in.
  Blocks::iterator find(const void* address);
  void give_back(Blocks::iterator block);

  const DeviceMemory* const memory_;
  std::mutex mutex_;
  Blocks used_;
  std::map<std::size_t, std::size_t> free_;  // bytes by offset, never two beside each other
  std::size_t bytes_in_use_ = 0;
};

}  // namespace fartest
