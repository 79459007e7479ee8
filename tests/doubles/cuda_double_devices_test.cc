// The CUDA double's GPUs, contexts and attributes of addresses.
#include <unistd.h>

#include <array>
#include <cstring>

#include "doubles/cuda_double_fixture.h"

namespace farwrite::cuda_double {
namespace {

using CudaDoubleDevices = CudaDoubleTest;

TEST_F(CudaDoubleDevices, AreAsManyAsAsked) {
  set("GPUS", "2");
  set("VERSION", "12040");
  ASSERT_EQ(cudaDoubleReset(), 0U);
  int number = 0;
  EXPECT_EQ(cuDriverGetVersion(&number), kSuccess);
  EXPECT_EQ(number, 12040);
  EXPECT_EQ(cuDeviceGetCount(&number), kNotInitialized);
  EXPECT_EQ(cuInit(1), kInvalidValue);
  ASSERT_EQ(cuInit(0), kSuccess);
  EXPECT_EQ(cuDeviceGetCount(&number), kSuccess);
  EXPECT_EQ(number, 2);
  CUdevice device = -1;
  EXPECT_EQ(cuDeviceGet(&device, 2), kInvalidDevice);
  EXPECT_EQ(cuDeviceGet(&device, -1), kInvalidDevice);
  EXPECT_EQ(cuDeviceGet(&device, 1), kSuccess);
  EXPECT_EQ(device, 1);
  char text[32] = {};
  EXPECT_EQ(cuDeviceGetPCIBusId(text, sizeof(text), 1), kSuccess);
  EXPECT_STREQ(text, "0000:02:00.0");
  EXPECT_EQ(cuDeviceGetPCIBusId(text, 12, 1), kInvalidValue);
  EXPECT_EQ(cuDeviceGetName(text, sizeof(text), 0), kSuccess);
  EXPECT_STREQ(text, "CUDA double");
  CUuuid first{};
  CUuuid second{};
  EXPECT_EQ(cuDeviceGetUuid_v2(&first, 0), kSuccess);
  EXPECT_EQ(cuDeviceGetUuid_v2(&second, 1), kSuccess);
  EXPECT_NE(std::memcmp(&first, &second, sizeof(first)), 0);
}

TEST_F(CudaDoubleDevices, MayBeNone) {
  set("GPUS", "0");
  ASSERT_EQ(cudaDoubleReset(), 0U);
  EXPECT_EQ(cuInit(0), kNoDevice);
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), kNotInitialized);
}

TEST_F(CudaDoubleDevices, HaveTheAttributesThatTheEnvironmentSays) {
  start({{"ATTRIBUTES", "102=0,75=7"}, {"DMA_BUF", "1"}});
  const auto attribute = [](int which) {
    int value = -1;
    EXPECT_EQ(cuDeviceGetAttribute(&value, which, 0), kSuccess);
    return value;
  };
  EXPECT_EQ(attribute(kUnifiedAddressing), 1);
  EXPECT_EQ(attribute(kVirtualMemorySupported), 0);
  EXPECT_EQ(attribute(kPosixHandleSupported), 1);
  EXPECT_EQ(attribute(kDmaBufSupported), 1);
  EXPECT_EQ(attribute(kComputeCapabilityMajor), 7);
  EXPECT_EQ(attribute(kPciBusId), 1);
  int value = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&value, 100000, 0), kInvalidValue);
  EXPECT_EQ(cuDeviceGetAttribute(&value, kUnifiedAddressing, 1), kInvalidDevice);
  const CUmemAllocationProp prop = shareable();
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kUnit, &prop, 0), kNotSupported);
}

TEST_F(CudaDoubleDevices, RefuseAnEnvironmentThatCannotBeRead) {
  using Wrong = std::pair<const char*, const char*>;
  for (const auto& [name, value] : std::array{
           Wrong("GPUS", "many"), Wrong("GPUS", "-1"), Wrong("BYTES", "1G"), Wrong("DMA_BUF", "2"),
           Wrong("ATTRIBUTES", "102"), Wrong("FAIL", "cuMemCreate"), Wrong("FAIL", "cuMemCrate=2"),
           Wrong("FAIL", "cuInit=2@0"), Wrong("FAIL", "cuInit=2x"), Wrong("FAIL", "printf=2")}) {
    SCOPED_TRACE(std::string(name) + "=" + value);
    set(name, value);
    testing::internal::CaptureStderr();
    ASSERT_EQ(cudaDoubleReset(), 0U);
    EXPECT_NE(testing::internal::GetCapturedStderr().find(name), std::string::npos);
    EXPECT_EQ(cuInit(0), kUnknown);
    set(name, std::nullopt);
  }
}

TEST_F(CudaDoubleDevices, WantAContextForWhatTheDriverWantsOneFor) {
  start();
  EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), kSuccess);
  Bytes host(8);
  CUcontext current = context();
  CUdevice device = 0;
  CUdeviceptr address = 0;
  std::size_t number = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&current), kSuccess);
  EXPECT_EQ(current, nullptr);
  EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), kInvalidContext);
  EXPECT_EQ(cuCtxGetDevice(&device), kInvalidContext);
  EXPECT_EQ(cuMemAlloc_v2(&address, 8), kInvalidContext);
  EXPECT_EQ(cuMemFree_v2(0), kInvalidContext);
  EXPECT_EQ(cuMemGetInfo_v2(&number, &number), kInvalidContext);
  EXPECT_EQ(cuMemHostRegister_v2(host.data(), 8, 0), kInvalidContext);
  EXPECT_EQ(cuStreamCreate(&stream, 0), kInvalidContext);
  EXPECT_EQ(cuStreamSynchronize(nullptr), kInvalidContext);
  EXPECT_EQ(cuEventCreate(&event, 0), kInvalidContext);
  EXPECT_EQ(cuMemcpyAsync(as_address(host.data()), as_address(host.data()), 0, nullptr),
            kInvalidContext);
  EXPECT_EQ(cuMemsetD8Async(0, 0, 0, nullptr), kInvalidContext);
  {
    const Mapped needs_none(kUnit);
  }
  EXPECT_EQ(cuCtxPushCurrent_v2(reinterpret_cast<CUcontext>(host.data())), kInvalidContext);
  EXPECT_EQ(cuCtxPushCurrent_v2(context()), kSuccess);
}

TEST_F(CudaDoubleDevices, KnowAContextThatIsReleased) {
  start();
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), kSuccess);
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, 0), kContextIsDestroyed);
  EXPECT_EQ(cuCtxPushCurrent_v2(context()), kContextIsDestroyed);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), kInvalidContext);
  CUcontext again = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&again, 0), kSuccess);
}

TEST_F(CudaDoubleDevices, TellWhatAnAddressIs) {
  start({{"GPUS", "2"}});
  const auto number = [](int attribute, CUdeviceptr address) {
    unsigned long long value = 0;
    EXPECT_EQ(cuPointerGetAttribute(&value, attribute, address), kSuccess) << attribute;
    return value;
  };
  const CUdeviceptr linear = allocate(100);
  EXPECT_EQ(number(kPointerMemoryType, linear + 99), kMemoryTypeDevice);
  EXPECT_EQ(number(kPointerContext, linear), as_address(context()));
  EXPECT_EQ(number(kPointerRangeStart, linear + 99), linear);
  EXPECT_EQ(number(kPointerRangeSize, linear + 99), 100U);
  EXPECT_EQ(number(kPointerDeviceOrdinal, linear), 0U);
  EXPECT_EQ(number(kPointerIsLegacyIpcCapable, linear), 1U);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &size, linear + 5), kSuccess);
  EXPECT_EQ(base, linear);
  EXPECT_EQ(size, 100U);
  {
    const Mapped mapped(kUnit);
    EXPECT_EQ(number(kPointerMemoryType, mapped.address()), kMemoryTypeDevice);
    EXPECT_EQ(number(kPointerRangeStart, mapped.address() + 5), mapped.address());
    EXPECT_EQ(number(kPointerRangeSize, mapped.address()), kUnit);
    EXPECT_EQ(number(kPointerAllowedHandleTypes, mapped.address()), 1U);
    EXPECT_EQ(number(kPointerAccessFlags, mapped.address()), 3U);
    EXPECT_NE(number(kPointerBufferId, mapped.address()), number(kPointerBufferId, linear));
  }
  alignas(4096) static unsigned char host[4096];
  unsigned long long value = 0;
  const int asked[] = {kPointerMemoryType, kPointerDeviceOrdinal};
  int type = 7, ordinal = 7;
  void* answers[] = {&type, &ordinal};
  EXPECT_EQ(cuPointerGetAttributes(2, asked, answers, as_address(host)), kSuccess);
  EXPECT_EQ(type, 0) << "memory that the driver never saw";
  EXPECT_EQ(ordinal, -2);
  EXPECT_EQ(cuPointerGetAttribute(&value, kPointerMemoryType, as_address(host)), kInvalidValue)
      << "memory that CUDA does not know";
  ASSERT_EQ(cuMemHostRegister_v2(host, sizeof(host), 0), kSuccess);
  EXPECT_EQ(number(kPointerMemoryType, as_address(host + 8)), kMemoryTypeHost);
  EXPECT_EQ(number(kPointerHostPointer, as_address(host + 8)), as_address(host + 8));
  EXPECT_EQ(cuMemHostUnregister(host), kSuccess);
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &size, linear), kNotFound);
}

TEST_F(CudaDoubleDevices, GiveADescriptorOfTheirMemoryIfAsked) {
  start({{"DMA_BUF", "1"}});
  CUmemAllocationProp prop = shareable();
  prop.flags.gpu_direct_rdma_capable = 1;
  const Mapped mapped(kUnit, kAccessReadWrite, std::nullopt, prop);
  const Mapped unasked(kUnit);
  poke(mapped.address(), Bytes(4, 6));
  int descriptor = -1;
  const auto get = [&](CUdeviceptr address, std::size_t size) {
    return cuMemGetHandleForAddressRange(&descriptor, address, size, kRangeHandleTypeDmaBuf, 0);
  };
  EXPECT_EQ(get(mapped.address() + 1, 4096), kInvalidValue);
  EXPECT_EQ(get(mapped.address(), 2 * kUnit), kInvalidValue);
  EXPECT_EQ(get(unasked.address(), kUnit), kNotSupported);
  ASSERT_EQ(get(mapped.address(), kUnit), kSuccess);
  Bytes bytes(4);
  EXPECT_EQ(::pread(descriptor, bytes.data(), 4, 0), 4);
  EXPECT_EQ(bytes, Bytes(4, 6));
  ::close(descriptor);
  const CUdeviceptr linear = allocate(4096);
  ASSERT_EQ(get(linear, 4096), kSuccess);
  ::close(descriptor);
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
}

TEST_F(CudaDoubleDevices, GiveNoDescriptorOtherwise) {
  start();
  const Mapped mapped(kUnit);
  int descriptor = -1;
  EXPECT_EQ(cuMemGetHandleForAddressRange(&descriptor, mapped.address(), kUnit,
                                          kRangeHandleTypeDmaBuf, 0),
            kNotSupported);
  CUmemAllocationProp prop = shareable();
  prop.flags.gpu_direct_rdma_capable = 1;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kUnit, &prop, 0), kNotSupported);
}

}  // namespace
}  // namespace farwrite::cuda_double
