// The CUDA double between processes: memory that is exported, owners that are killed, children that
// are forked, and programs that end in the middle of a copy.
#include "cuda_double/cuda_double.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "fault/child_process.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

using namespace cuda_double;  // NOLINT(google-build-using-namespace): its names are the driver's

constexpr std::size_t kUnit = std::size_t{2} << 20;
using Bytes = std::vector<unsigned char>;

CUmemGenericAllocationHandle create() {
  CUmemAllocationProp prop{};
  prop.type = kAllocationTypePinned;
  prop.handle_types = kHandleTypePosixFileDescriptor;
  prop.location = {kLocationTypeDevice, 0};
  CUmemGenericAllocationHandle handle = 0;
  FARWRITE_REQUIRE(cuMemCreate(&handle, kUnit, &prop, 0) == kSuccess);
  return handle;
}

CUmemGenericAllocationHandle import(int descriptor) {
  CUmemGenericAllocationHandle handle = 0;
  FARWRITE_REQUIRE(cuMemImportFromShareableHandle(
                       &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                       kHandleTypePosixFileDescriptor) == kSuccess);
  return handle;
}

int export_descriptor(CUmemGenericAllocationHandle handle) {
  int descriptor = -1;
  FARWRITE_REQUIRE(cuMemExportToShareableHandle(&descriptor, handle, kHandleTypePosixFileDescriptor,
                                                0) == kSuccess);
  return descriptor;
}

// Consumes the handle.
CUdeviceptr map(CUmemGenericAllocationHandle handle) {
  CUdeviceptr address = 0;
  const CUmemAccessDesc access = {{kLocationTypeDevice, 0}, kAccessReadWrite};
  FARWRITE_REQUIRE(cuMemAddressReserve(&address, kUnit, 0, 0, 0) == kSuccess);
  FARWRITE_REQUIRE(cuMemMap(address, kUnit, 0, handle, 0) == kSuccess);
  FARWRITE_REQUIRE(cuMemSetAccess(address, kUnit, &access, 1) == kSuccess);
  FARWRITE_REQUIRE(cuMemRelease(handle) == kSuccess);
  return address;
}

void unmap(CUdeviceptr address) {
  FARWRITE_REQUIRE(cuMemUnmap(address, kUnit) == kSuccess);
  FARWRITE_REQUIRE(cuMemAddressFree(address, kUnit) == kSuccess);
}

void start() {
  CUcontext context = nullptr;
  FARWRITE_REQUIRE(cuInit(0) == kSuccess);
  FARWRITE_REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == kSuccess);
  FARWRITE_REQUIRE(cuCtxPushCurrent_v2(context) == kSuccess);
}

Bytes peek(CUdeviceptr address, std::size_t size) {
  Bytes bytes(size);
  FARWRITE_REQUIRE(cudaDoublePeek(address, bytes.data(), size) == kSuccess);
  return bytes;
}

// Arguments: a descriptor that it inherited.
int importer(const Arguments& arguments) {
  start();
  const CUdeviceptr address = map(import(std::stoi(arguments.at(0))));
  Bytes host(100);
  FARWRITE_REQUIRE(cuMemcpyDtoHAsync_v2(host.data(), address, 100, nullptr) == kSuccess);
  FARWRITE_REQUIRE(cuStreamSynchronize(nullptr) == kSuccess);
  FARWRITE_REQUIRE(host == Bytes(100, 7));
  FARWRITE_REQUIRE(cuMemsetD8Async(address, 9, 100, nullptr) == kSuccess);
  FARWRITE_REQUIRE(cuStreamSynchronize(nullptr) == kSuccess);
  unmap(address);
  return 0;
}
const RoleRegistration kImporter("cuda importer", importer);

int exporter(const Arguments&) {
  start();
  const CUmemGenericAllocationHandle handle = create();
  const int descriptor = export_descriptor(handle);
  const CUdeviceptr address = map(handle);
  const Bytes bytes(100, 7);
  FARWRITE_REQUIRE(cudaDoublePoke(address, bytes.data(), 100) == kSuccess);
  say("exported /proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor));
  hear_the_end();
  return 0;
}
const RoleRegistration kExporter("cuda exporter", exporter);

// What a forked child gets from calls of each kind: 0, or the number of the first that is wrong.
int judge_forked_child(CUcontext context, CUdeviceptr address) {
  int number = 0;
  const char* name = nullptr;
  CUstream stream = nullptr;
  if (cuInit(0) != kNotInitialized) return 1;
  if (cuDeviceGetCount(&number) != kNotInitialized) return 2;
  if (cuCtxPushCurrent_v2(context) != kNotInitialized) return 3;
  if (cuStreamCreate(&stream, 0) != kNotInitialized) return 4;
  if (cuMemsetD8Async(address, 1, 8, nullptr) != kNotInitialized) return 5;
  if (cuStreamSynchronize(nullptr) != kNotInitialized) return 6;
  if (cuMemFree_v2(address) != kNotInitialized) return 7;
  if (cuGetErrorName(kNotInitialized, &name) != kSuccess) return 8;
  if (std::string(name) != "CUDA_ERROR_NOT_INITIALIZED") return 9;
  if (cudaDoubleLive().allocations != 0) return 10;
  return 0;
}

int forking_owner(const Arguments&) {
  start();
  CUcontext context = nullptr;
  CUdeviceptr address = 0;
  FARWRITE_REQUIRE(cuCtxGetCurrent(&context) == kSuccess);
  FARWRITE_REQUIRE(cuMemAlloc_v2(&address, 64) == kSuccess);
  FARWRITE_REQUIRE(cuMemsetD8Async(address, 5, 64, nullptr) == kSuccess);
  const pid_t child = ::fork();
  if (child == 0) std::exit(judge_forked_child(context, address));
  int status = -1;
  FARWRITE_REQUIRE(::waitpid(child, &status, 0) == child);
  say("child " + std::to_string(status));
  FARWRITE_REQUIRE(cuStreamSynchronize(nullptr) == kSuccess);
  FARWRITE_REQUIRE(peek(address, 64) == Bytes(64, 5));
  FARWRITE_REQUIRE(cuMemFree_v2(address) == kSuccess);
  return 0;
}
const RoleRegistration kForkingOwner("cuda forking owner", forking_owner);

int hasty(const Arguments&) {
  FARWRITE_REQUIRE(::setenv("CUDA_DOUBLE_DELAY_US", "2000000", 1) == 0);
  start();
  static Bytes host(1 << 20);
  CUdeviceptr address = 0;
  FARWRITE_REQUIRE(cuMemAlloc_v2(&address, host.size()) == kSuccess);
  for (int i = 0; i < 8; ++i) {
    CUstream stream = nullptr;
    FARWRITE_REQUIRE(cuStreamCreate(&stream, 0) == kSuccess);
    FARWRITE_REQUIRE(cuMemcpyHtoDAsync_v2(address, host.data(), host.size(), stream) == kSuccess);
  }
  FARWRITE_REQUIRE(cuStreamQuery(nullptr) == kNotReady);
  return 0;
}
const RoleRegistration kHasty("cuda hasty", hasty);

TEST(CudaDoubleProcesses, ShareMemoryThatOneExports) {
  ASSERT_EQ(cudaDoubleReset(), 0U);
  ASSERT_EQ(cuInit(0), kSuccess);
  const CUmemGenericAllocationHandle handle = create();
  const int descriptor = export_descriptor(handle);
  const CUdeviceptr address = map(handle);
  const Bytes bytes(100, 7);
  ASSERT_EQ(cudaDoublePoke(address, bytes.data(), bytes.size()), kSuccess);
  ASSERT_EQ(::fcntl(descriptor, F_SETFD, 0), 0) << "the child inherits it";
  ChildProcess child("cuda importer", {std::to_string(descriptor)});
  EXPECT_EQ(child.finish(), 0) << child.last_line();
  ::close(descriptor);
  EXPECT_EQ(peek(address, 100), Bytes(100, 9));
  unmap(address);
  EXPECT_EQ(cudaDoubleReset(), 0U);
}

TEST(CudaDoubleProcesses, KeepImportedMemoryOfOneThatIsKilled) {
  ASSERT_EQ(cudaDoubleReset(), 0U);
  ASSERT_EQ(cuInit(0), kSuccess);
  ChildProcess child("cuda exporter", {});
  const int descriptor = ::open(child.wait_for("exported").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  const CUdeviceptr address = map(import(descriptor));
  ::close(descriptor);
  child.kill();
  EXPECT_EQ(peek(address, 100), Bytes(100, 7));
  unmap(address);
  EXPECT_EQ(cudaDoubleReset(), 0U);
}

TEST(CudaDoubleProcesses, RefuseTheGpusToForkedChildren) {
  ChildProcess owner("cuda forking owner", {});
  EXPECT_EQ(owner.wait_for("child"), "0");
  EXPECT_EQ(owner.finish(), 0) << owner.last_line();
}

TEST(CudaDoubleProcesses, EndWhileTheirCopiesArePending) {
  ChildProcess hasty_one("cuda hasty", {});
  EXPECT_EQ(hasty_one.finish(), 0) << hasty_one.last_line();
}

}  // namespace
}  // namespace farwrite::fault
