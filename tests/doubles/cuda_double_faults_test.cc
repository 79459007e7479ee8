// Faults of the CUDA double: every function can fail, once, at the call that a test names.
#include <dlfcn.h>

#include <functional>
#include <set>
#include <string>

#include "doubles/cuda_double_fixture.h"

namespace farwrite::cuda_double {
namespace {

using CudaDoubleFaults = CudaDoubleTest;

struct Function {
  const char* name;
  std::function<CUresult()> call;
};

// Every function, called so that nothing is made or harmed, whatever it answers.
const std::vector<Function>& all_functions() {
  static int number = 0;
  static const char* text = nullptr;
  static char room[64];
  static CUuuid uuid;
  static CUcontext context;
  static std::size_t size = 0;
  static const std::vector<Function> all = {
      {"cuInit", [] { return cuInit(1); }},
      {"cuDriverGetVersion", [] { return cuDriverGetVersion(&number); }},
      {"cuGetErrorName", [] { return cuGetErrorName(kUnknown, &text); }},
      {"cuGetErrorString", [] { return cuGetErrorString(kUnknown, &text); }},
      {"cuDeviceGetCount", [] { return cuDeviceGetCount(&number); }},
      {"cuDeviceGet", [] { return cuDeviceGet(&number, 0); }},
      {"cuDeviceGetName", [] { return cuDeviceGetName(room, sizeof(room), 0); }},
      {"cuDeviceGetUuid_v2", [] { return cuDeviceGetUuid_v2(&uuid, 0); }},
      {"cuDeviceGetPCIBusId", [] { return cuDeviceGetPCIBusId(room, sizeof(room), 0); }},
      {"cuDeviceGetAttribute", [] { return cuDeviceGetAttribute(&number, kUnifiedAddressing, 0); }},
      {"cuDevicePrimaryCtxRetain", [] { return cuDevicePrimaryCtxRetain(&context, 99); }},
      {"cuDevicePrimaryCtxRelease_v2", [] { return cuDevicePrimaryCtxRelease_v2(99); }},
      {"cuCtxPushCurrent_v2", [] { return cuCtxPushCurrent_v2(nullptr); }},
      {"cuCtxPopCurrent_v2",
       [] {
         CUcontext popped = nullptr;
         const CUresult answer = cuCtxPopCurrent_v2(&popped);
         if (answer != kSuccess) return answer;
         return cuCtxPushCurrent_v2(popped);
       }},
      {"cuCtxGetCurrent", [] { return cuCtxGetCurrent(&context); }},
      {"cuCtxGetDevice", [] { return cuCtxGetDevice(&number); }},
      {"cuMemGetAllocationGranularity",
       [] { return cuMemGetAllocationGranularity(nullptr, nullptr, 0); }},
      {"cuMemCreate", [] { return cuMemCreate(nullptr, 0, nullptr, 0); }},
      {"cuMemRelease", [] { return cuMemRelease(0); }},
      {"cuMemExportToShareableHandle",
       [] { return cuMemExportToShareableHandle(nullptr, 0, kHandleTypeNone, 0); }},
      {"cuMemImportFromShareableHandle",
       [] { return cuMemImportFromShareableHandle(nullptr, nullptr, kHandleTypeNone); }},
      {"cuMemAddressReserve", [] { return cuMemAddressReserve(nullptr, 0, 0, 0, 0); }},
      {"cuMemAddressFree", [] { return cuMemAddressFree(0, 0); }},
      {"cuMemMap", [] { return cuMemMap(0, 0, 0, 0, 0); }},
      {"cuMemUnmap", [] { return cuMemUnmap(0, 0); }},
      {"cuMemSetAccess", [] { return cuMemSetAccess(0, 0, nullptr, 0); }},
      {"cuMemAlloc_v2", [] { return cuMemAlloc_v2(nullptr, 0); }},
      {"cuMemFree_v2", [] { return cuMemFree_v2(1); }},
      {"cuMemGetInfo_v2", [] { return cuMemGetInfo_v2(&size, &size); }},
      {"cuMemGetAddressRange_v2", [] { return cuMemGetAddressRange_v2(nullptr, nullptr, 0); }},
      {"cuMemGetHandleForAddressRange",
       [] { return cuMemGetHandleForAddressRange(nullptr, 0, 0, kRangeHandleTypeDmaBuf, 0); }},
      {"cuMemHostRegister_v2", [] { return cuMemHostRegister_v2(nullptr, 0, 0); }},
      {"cuMemHostUnregister", [] { return cuMemHostUnregister(nullptr); }},
      {"cuPointerGetAttributes",
       [] {
         static int type = 0;
         static const int attribute = kPointerMemoryType;
         static void* values[] = {&type};
         return cuPointerGetAttributes(1, &attribute, values, as_address(&size));
       }},
      {"cuPointerGetAttribute",
       [] { return cuPointerGetAttribute(&size, kPointerMemoryType, as_address(&size)); }},
      {"cuStreamCreate", [] { return cuStreamCreate(nullptr, 0); }},
      {"cuStreamDestroy_v2", [] { return cuStreamDestroy_v2(nullptr); }},
      {"cuCtxSynchronize", [] { return cuCtxSynchronize(); }},
      {"cuStreamQuery", [] { return cuStreamQuery(nullptr); }},
      {"cuStreamSynchronize", [] { return cuStreamSynchronize(nullptr); }},
      {"cuStreamWaitEvent", [] { return cuStreamWaitEvent(nullptr, nullptr, 0); }},
      {"cuEventCreate", [] { return cuEventCreate(nullptr, 0); }},
      {"cuEventDestroy_v2", [] { return cuEventDestroy_v2(nullptr); }},
      {"cuEventRecord", [] { return cuEventRecord(nullptr, nullptr); }},
      {"cuEventQuery", [] { return cuEventQuery(nullptr); }},
      {"cuEventSynchronize", [] { return cuEventSynchronize(nullptr); }},
      {"cuMemcpyAsync", [] { return cuMemcpyAsync(0, 0, 0, nullptr); }},
      {"cuMemcpyHtoDAsync_v2", [] { return cuMemcpyHtoDAsync_v2(0, nullptr, 0, nullptr); }},
      {"cuMemcpyDtoHAsync_v2", [] { return cuMemcpyDtoHAsync_v2(nullptr, 0, 0, nullptr); }},
      {"cuMemcpyDtoDAsync_v2", [] { return cuMemcpyDtoDAsync_v2(0, 0, 0, nullptr); }},
      {"cuMemsetD8Async", [] { return cuMemsetD8Async(0, 0, 0, nullptr); }},
  };
  return all;
}

TEST_F(CudaDoubleFaults, MeetEveryFunctionOnce) {
  start();
  for (const Function& function : all_functions()) {
    SCOPED_TRACE(function.name);
    const CUresult usual = function.call();
    EXPECT_NE(usual, kNotInitialized);
    ASSERT_TRUE(cudaDoubleFail((std::string(function.name) + "=802").c_str()));
    const unsigned long long calls = cudaDoubleCalls(function.name);
    EXPECT_EQ(function.call(), 802);
    EXPECT_EQ(function.call(), usual);
    EXPECT_EQ(cudaDoubleCalls(function.name), calls + 2);
  }
}

TEST_F(CudaDoubleFaults, AreNotNeededForAProcessThatHasNotInitialized) {
  const std::set<std::string> early = {"cuInit", "cuDriverGetVersion", "cuGetErrorName",
                                       "cuGetErrorString"};
  for (const Function& function : all_functions()) {
    if (early.contains(function.name)) continue;
    EXPECT_EQ(function.call(), kNotInitialized) << function.name;
  }
}

// As Farwrite finds them.
TEST_F(CudaDoubleFaults, AreOfFunctionsThatTheLibraryHas) {
  void* const library = ::dlopen(FARWRITE_CUDA_DOUBLE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const Function& function : all_functions()) {
    EXPECT_NE(::dlsym(library, function.name), nullptr) << function.name;
  }
  ::dlclose(library);
  EXPECT_EQ(all_functions().size(), 51U);
}

TEST_F(CudaDoubleFaults, MeetTheCallThatIsNamed) {
  start({{"FAIL", "cuEventCreate=2@3,cuEventCreate=999@5+,cuMemAlloc_v2=304"}});
  std::vector<int> answers;
  std::vector<CUevent> events;
  for (int i = 0; i < 7; ++i) {
    CUevent event = nullptr;
    answers.push_back(cuEventCreate(&event, 0));
    if (event != nullptr) events.push_back(event);
  }
  EXPECT_EQ(answers, (std::vector<int>{0, 0, 2, 0, 999, 999, 999}));
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc_v2(&address, 8), kOperatingSystem);
  EXPECT_EQ(address, 0U) << "a call that fails does nothing";
  for (const CUevent event : events) EXPECT_EQ(cuEventDestroy_v2(event), kSuccess);
}

TEST_F(CudaDoubleFaults, StickIfTheDriversDo) {
  for (const CUresult error : {kIllegalAddress, kLaunchFailed}) {
    SCOPED_TRACE(error);
    ASSERT_EQ(cudaDoubleReset(), 0U);
    CUcontext context = nullptr;
    ASSERT_EQ(cuInit(0), kSuccess);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), kSuccess);
    ASSERT_EQ(cuCtxPushCurrent_v2(context), kSuccess);
    const CUevent event = make_event();
    Bytes host(8, 1);
    Bytes from(8, 2);
    cudaDoublePause();
    EXPECT_EQ(cuMemcpyAsync(as_address(host.data()), as_address(from.data()), 8, nullptr),
              kSuccess);
    ASSERT_TRUE(
        cudaDoubleFail(("cuEventSynchronize=" + std::to_string(static_cast<int>(error))).c_str()));
    EXPECT_EQ(cuEventSynchronize(event), error);
    cudaDoubleResume();
    EXPECT_EQ(cuEventQuery(event), error);
    EXPECT_EQ(cuStreamSynchronize(nullptr), error);
    EXPECT_EQ(cuMemcpyAsync(as_address(host.data()), as_address(from.data()), 8, nullptr), error);
    EXPECT_EQ(host, Bytes(8, 1)) << "the GPU does nothing any more";
    EXPECT_EQ(cuEventDestroy_v2(event), error) << "the error is returned, and the event is gone";
    EXPECT_EQ(cudaDoubleLive().events, 0U);
    EXPECT_EQ(cuCtxPopCurrent_v2(nullptr), kSuccess);
    EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), kSuccess);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), error) << "until the process ends";
  }
}

TEST_F(CudaDoubleFaults, AreRefusedIfTheyCannotBeRead) {
  start();
  testing::internal::CaptureStderr();
  EXPECT_FALSE(cudaDoubleFail("cuInit=999,cuMemAlloc=2"));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("name the symbol"), std::string::npos);
  EXPECT_EQ(cuInit(0), kSuccess) << "nothing of it counts";
}

TEST_F(CudaDoubleFaults, HaveNames) {
  const char* text = nullptr;
  EXPECT_EQ(cuGetErrorName(kHostMemoryNotRegistered, &text), kSuccess);
  EXPECT_STREQ(text, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED");
  EXPECT_EQ(cuGetErrorString(kOutOfMemory, &text), kSuccess);
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &text), kInvalidValue);
  EXPECT_EQ(text, nullptr);
}

}  // namespace
}  // namespace farwrite::cuda_double
