// A test with the CUDA double as if in a new process, and what most of them need of it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cuda_double/cuda_double.h"

namespace farwrite::cuda_double {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kUnit = 2 * kMiB;  // the granularity of the double

using Bytes = std::vector<unsigned char>;

inline CUdeviceptr as_address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

inline Bytes peek(CUdeviceptr address, std::size_t size) {
  Bytes bytes(size);
  EXPECT_EQ(cudaDoublePeek(address, bytes.data(), size), kSuccess);
  return bytes;
}

inline void poke(CUdeviceptr address, const Bytes& bytes) {
  EXPECT_EQ(cudaDoublePoke(address, bytes.data(), bytes.size()), kSuccess);
}

inline unsigned long long count_live() {
  const CudaDoubleLive live = cudaDoubleLive();
  return live.allocations + live.reservations + live.mappings + live.registrations + live.streams +
         live.events + live.contexts;
}

inline CUmemAllocationProp shareable(CUdevice device = 0) {
  CUmemAllocationProp prop{};
  prop.type = kAllocationTypePinned;
  prop.handle_types = kHandleTypePosixFileDescriptor;
  prop.location = {kLocationTypeDevice, device};
  return prop;
}

// Memory of cuMemCreate() at an address of its own. Gone with this.
class Mapped {
 public:
  // Of a new allocation, or of one that was imported, which this releases.
  explicit Mapped(std::size_t size, int access = kAccessReadWrite,
                  std::optional<CUmemGenericAllocationHandle> imported = std::nullopt,
                  const CUmemAllocationProp& prop = shareable())
      : size_(size) {
    if (imported) {
      handle_ = *imported;
    } else {
      EXPECT_EQ(cuMemCreate(&handle_, size, &prop, 0), kSuccess);
    }
    EXPECT_EQ(cuMemAddressReserve(&address_, size, 0, 0, 0), kSuccess);
    EXPECT_EQ(cuMemMap(address_, size, 0, handle_, 0), kSuccess);
    if (access != kAccessNone) allow(access);
  }
  ~Mapped() {
    unmap();
    EXPECT_EQ(cuMemAddressFree(address_, size_), kSuccess);
    EXPECT_EQ(cuMemRelease(handle_), kSuccess);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  void allow(int access) {
    const CUmemAccessDesc description = {{kLocationTypeDevice, 0}, access};
    EXPECT_EQ(cuMemSetAccess(address_, size_, &description, 1), kSuccess);
  }
  void unmap() {
    if (!mapped_) return;
    EXPECT_EQ(cuMemUnmap(address_, size_), kSuccess);
    mapped_ = false;
  }
  int export_descriptor() const {
    int descriptor = -1;
    EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, handle_, kHandleTypePosixFileDescriptor, 0),
              kSuccess);
    return descriptor;
  }
  CUdeviceptr address() const { return address_; }
  CUmemGenericAllocationHandle handle() const { return handle_; }

 private:
  std::size_t size_;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  bool mapped_ = true;
};

// Each test starts with no cuInit(), and fails if it leaves anything live.
class CudaDoubleTest : public testing::Test {
 protected:
  CudaDoubleTest() {
    for (const char* name :
         {"GPUS", "BYTES", "VERSION", "DMA_BUF", "ATTRIBUTES", "DELAY_US", "FAIL"}) {
      set(name, std::nullopt);
    }
    EXPECT_EQ(cudaDoubleReset(), 0U) << "an earlier test left something on the double's GPUs";
  }
  ~CudaDoubleTest() override {
    cudaDoubleResume();
    if (context_ != nullptr) {
      EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), kSuccess);
      EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), kSuccess);
    }
    EXPECT_EQ(count_live(), 0U);
    for (const auto& [name, value] : before_) put(name, value);
    EXPECT_EQ(cudaDoubleReset(), 0U);
  }

  // CUDA_DOUBLE_<name>, until the test ends.
  void set(const std::string& name, const std::optional<std::string>& value) {
    const std::string full = "CUDA_DOUBLE_" + name;
    const char* const old = std::getenv(full.c_str());
    before_.emplace(full, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    put(full, value);
  }
  // With these variables: cuInit(), and GPU 0's context current.
  void start(const std::map<std::string, std::string>& variables = {}) {
    for (const auto& [name, value] : variables) set(name, value);
    ASSERT_EQ(cudaDoubleReset(), 0U);
    ASSERT_EQ(cuInit(0), kSuccess);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), kSuccess);
    ASSERT_EQ(cuCtxPushCurrent_v2(context_), kSuccess);
  }
  CUcontext context() const { return context_; }

  static CUdeviceptr allocate(std::size_t size) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, size), kSuccess);
    return address;
  }
  static CUstream make_stream(unsigned flags = kStreamNonBlocking) {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, flags), kSuccess);
    return stream;
  }
  static CUevent make_event() {
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, kEventDisableTiming), kSuccess);
    return event;
  }

 private:
  static void put(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }

  std::map<std::string, std::optional<std::string>> before_;
  CUcontext context_ = nullptr;
};

}  // namespace farwrite::cuda_double
