// DeviceMemory: memory that the processor cannot reach by the addresses that TensorFlow gets.
//
// The same pages are mapped twice. The mapping whose addresses are handed out allows no access, so
// that the code that reads or writes there gets SIGSEGV, and a system call EFAULT. The device's own
// copies and computations use the other one.
#pragma once

#include <cstddef>

namespace fartest {

class DeviceMemory {
 public:
  // Ends the process if the memory cannot be mapped. It is never unmapped.
  explicit DeviceMemory(std::size_t bytes);

  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // The first of the addresses that are handed out.
  char* begin() const { return begin_; }
  std::size_t bytes() const { return bytes_; }

  bool contains(const void* address, std::size_t bytes) const;

  // What is at such an address, as the device reaches it.
  char* inside(const void* address) const;

 private:
  const std::size_t bytes_;
  char* begin_ = nullptr;
  char* inside_ = nullptr;
};

}  // namespace fartest
