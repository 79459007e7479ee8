#include "device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "tensorflow/core/platform/logging.h"

namespace fartest {
namespace {

char* map(int file, std::size_t bytes, int access) {
  void* const mapped = mmap(nullptr, bytes, access, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (mapped == MAP_FAILED) {
    LOG(FATAL) << "FARTEST: cannot map the memory of a device, " << bytes
               << " bytes: " << std::strerror(errno) << "; set FARTEST_MEMORY_BYTES to less";
  }
  return static_cast<char*>(mapped);
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  const int file = memfd_create("memory of FARTEST", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    LOG(FATAL) << "FARTEST: cannot make the memory of a device: " << std::strerror(errno);
  }
  begin_ = map(file, bytes, PROT_NONE);
  inside_ = map(file, bytes, PROT_READ | PROT_WRITE);
  close(file);
}

bool DeviceMemory::contains(const void* address, std::size_t bytes) const {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const auto begin = reinterpret_cast<std::uintptr_t>(begin_);
  return first >= begin && first - begin <= bytes_ && bytes <= bytes_ - (first - begin);
}

char* DeviceMemory::inside(const void* address) const {
  return inside_ + (static_cast<const char*>(address) - begin_);
}

}  // namespace fartest
