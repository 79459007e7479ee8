// What others rely on in the CUDA double: devices, contexts, and memory that only copies reach.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "doubles/cuda_double_fixture.h"

namespace farwrite::cuda_double {
namespace {

using CudaDouble = CudaDoubleTest;

// How a child ends that runs `touch`: the signal, or 0.
template <class Touch>
int signal_of_child(Touch touch) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would exit
    touch();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void expect_out_of_the_cpus_reach(CUdeviceptr address) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(::write(ends[1], reinterpret_cast<const void*>(address), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(::read(ends[0], reinterpret_cast<void*>(address), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(ends[0]);
  ::close(ends[1]);
  auto* const byte = reinterpret_cast<volatile char*>(address);
  EXPECT_EQ(signal_of_child([&] { (void)*byte; }), SIGSEGV);
  EXPECT_EQ(signal_of_child([&] { *byte = 1; }), SIGSEGV);
  EXPECT_EQ(signal_of_child([] {}), 0);
}

TEST_F(CudaDouble, KeepsDeviceMemoryOutOfTheCpusReach) {
  start();
  const CUdeviceptr linear = allocate(4096);
  expect_out_of_the_cpus_reach(linear);
  {
    const Mapped mapped(kUnit);
    expect_out_of_the_cpus_reach(mapped.address());
    expect_out_of_the_cpus_reach(mapped.address() + kUnit - 1);
  }
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
}

TEST_F(CudaDouble, CopiesBetweenAnyTwoMemories) {
  start();
  const CUstream stream = make_stream();
  const CUdeviceptr linear = allocate(5000);
  const Mapped mapped(kUnit);
  Bytes source(5000);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i * 7);
  Bytes back(5000);
  Bytes third(5000);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(linear, source.data(), 5000, stream), kSuccess);
  EXPECT_EQ(cuMemcpyDtoDAsync_v2(mapped.address() + 3, linear, 5000, stream), kSuccess);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(back.data(), mapped.address() + 3, 5000, stream), kSuccess);
  EXPECT_EQ(cuMemcpyAsync(as_address(third.data()), as_address(back.data()), 5000, stream),
            kSuccess);
  EXPECT_EQ(cuStreamSynchronize(stream), kSuccess);
  EXPECT_EQ(back, source);
  EXPECT_EQ(third, source);
  EXPECT_EQ(cuMemsetD8Async(linear, 0x5a, 5000, stream), kSuccess);
  EXPECT_EQ(cuMemcpyAsync(as_address(back.data()), linear, 5000, stream), kSuccess);
  EXPECT_EQ(cuStreamSynchronize(stream), kSuccess);
  EXPECT_EQ(back, Bytes(5000, 0x5a));
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
}

TEST_F(CudaDouble, RefusesRangesThatNoAllocationHas) {
  start();
  const CUdeviceptr linear = allocate(5000);
  CUdeviceptr reserved = 0;
  ASSERT_EQ(cuMemAddressReserve(&reserved, kUnit, 0, 0, 0), kSuccess);
  Bytes host(8192);
  const CUdeviceptr mine = as_address(host.data());
  EXPECT_EQ(cuMemcpyAsync(linear + 1, mine, 5000, nullptr), kInvalidValue);
  EXPECT_EQ(cuMemcpyAsync(mine, linear + 5000, 1, nullptr), kInvalidValue);
  EXPECT_EQ(cuMemsetD8Async(linear + 4999, 0, 2, nullptr), kInvalidValue);
  EXPECT_EQ(cuMemcpyAsync(reserved, mine, 1, nullptr), kInvalidValue) << "nothing is mapped there";
  EXPECT_EQ(cuMemcpyAsync(mine, 0, 1, nullptr), kInvalidValue);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(mine, host.data() + 4096, 1, nullptr), kInvalidValue);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(reinterpret_cast<void*>(linear), linear, 1, nullptr),
            kInvalidValue);
  EXPECT_EQ(cuMemcpyDtoDAsync_v2(linear, mine, 1, nullptr), kInvalidValue);
  EXPECT_EQ(cuMemFree_v2(linear + 1), kInvalidValue);
  EXPECT_EQ(cuMemFree_v2(reserved), kInvalidValue);
  EXPECT_EQ(cuMemAddressFree(reserved, kUnit), kSuccess);
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  EXPECT_EQ(cuMemcpyAsync(linear, mine, 1, nullptr), kInvalidValue) << "it is freed";
  EXPECT_EQ(cuStreamSynchronize(nullptr), kSuccess) << "what was refused leaves no error behind";
}

TEST_F(CudaDouble, RefusesRangesThatGoOnInANeighbour) {
  start();
  const CUmemAllocationProp prop = shareable();
  const CUmemAccessDesc access = {{kLocationTypeDevice, 0}, kAccessReadWrite};
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemCreate(&handle, kUnit, &prop, 0), kSuccess);
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  ASSERT_EQ(cuMemAddressReserve(&first, 2 * kUnit, 0, 0, 0), kSuccess);
  ASSERT_EQ(cuMemAddressFree(first, 2 * kUnit), kSuccess);
  const CUdeviceptr wish = first;
  ASSERT_EQ(cuMemAddressReserve(&first, kUnit, 0, wish, 0), kSuccess);
  ASSERT_EQ(cuMemAddressReserve(&second, kUnit, 0, wish + kUnit, 0), kSuccess);
  ASSERT_EQ(first, wish) << "a wish is granted where nothing is";
  ASSERT_EQ(second, wish + kUnit);
  for (const CUdeviceptr address : {first, second}) {
    ASSERT_EQ(cuMemMap(address, kUnit, 0, handle, 0), kSuccess);
    ASSERT_EQ(cuMemSetAccess(address, kUnit, &access, 1), kSuccess);
  }
  EXPECT_EQ(cuMemsetD8Async(first, 1, kUnit, nullptr), kSuccess);
  EXPECT_EQ(cuMemsetD8Async(first, 1, kUnit + 1, nullptr), kInvalidValue);
  EXPECT_EQ(cuStreamSynchronize(nullptr), kSuccess);
  for (const CUdeviceptr address : {first, second}) {
    ASSERT_EQ(cuMemUnmap(address, kUnit), kSuccess);
    ASSERT_EQ(cuMemAddressFree(address, kUnit), kSuccess);
  }
  ASSERT_EQ(cuMemRelease(handle), kSuccess);
}

TEST_F(CudaDouble, SharesExportedMemory) {
  start();
  const Mapped first(kUnit);
  poke(first.address(), Bytes(100, 7));
  const int descriptor = first.export_descriptor();
  CUmemGenericAllocationHandle imported = 0;
  ASSERT_EQ(cuMemImportFromShareableHandle(
                &imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                kHandleTypePosixFileDescriptor),
            kSuccess);
  ::close(descriptor);
  const Mapped second(kUnit, kAccessReadWrite, imported);
  EXPECT_NE(second.address(), first.address());
  EXPECT_EQ(peek(second.address(), 100), Bytes(100, 7));
  EXPECT_EQ(cuMemsetD8Async(second.address(), 9, 100, nullptr), kSuccess);
  EXPECT_EQ(cuStreamSynchronize(nullptr), kSuccess);
  EXPECT_EQ(peek(first.address(), 100), Bytes(100, 9));
}

TEST_F(CudaDouble, RefusesToImportWhatIsNoExport) {
  start();
  const auto import = [](int descriptor) {
    CUmemGenericAllocationHandle handle = 0;
    return cuMemImportFromShareableHandle(
        &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
        kHandleTypePosixFileDescriptor);
  };
  EXPECT_EQ(import(-1), kInvalidValue);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(import(ends[0]), kInvalidValue);
  ::close(ends[0]);
  ::close(ends[1]);
  // The right name, but another size, and a size that could change.
  const int forged = ::memfd_create("cuda_double:0:2097152:0", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(import(forged), kInvalidValue);
  ASSERT_EQ(::ftruncate(forged, 2097152), 0);
  EXPECT_EQ(import(forged), kInvalidValue);
  ::close(forged);
  const int small = ::memfd_create("cuda_double:0:2097152:0", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(small, 4096), 0);
  ASSERT_EQ(::fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_EQ(import(small), kInvalidValue);
  ::close(small);
  CUmemAllocationProp prop = shareable();
  prop.handle_types = kHandleTypeNone;
  CUmemGenericAllocationHandle own = 0;
  ASSERT_EQ(cuMemCreate(&own, kUnit, &prop, 0), kSuccess);
  int descriptor = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, own, kHandleTypePosixFileDescriptor, 0),
            kInvalidValue)
      << "it was not made to be exported";
  EXPECT_EQ(cuMemRelease(own), kSuccess);
}

TEST_F(CudaDouble, ChecksWhatIsMappedWhere) {
  start();
  const CUmemAllocationProp prop = shareable();
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kUnit + 1, &prop, 0), kInvalidValue);
  ASSERT_EQ(cuMemCreate(&handle, kUnit, &prop, 0), kSuccess);
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAddressReserve(&address, 4 * kUnit, 0, 0, 0), kSuccess);
  EXPECT_EQ(address % kUnit, 0U);
  EXPECT_EQ(cuMemMap(address, 2 * kUnit, 0, handle, 0), kInvalidValue) << "larger than the memory";
  EXPECT_EQ(cuMemMap(address + 4096, kUnit, 0, handle, 0), kInvalidValue);
  EXPECT_EQ(cuMemMap(address + 4 * kUnit, kUnit, 0, handle, 0), kInvalidValue);
  EXPECT_EQ(cuMemMap(address, kUnit, 0, handle + 1, 0), kInvalidValue);
  ASSERT_EQ(cuMemMap(address, kUnit, 0, handle, 0), kSuccess);
  EXPECT_EQ(cuMemMap(address, kUnit, 0, handle, 0), kInvalidValue) << "it is taken";
  ASSERT_EQ(cuMemMap(address + kUnit, kUnit, 0, handle, 0), kSuccess);
  EXPECT_EQ(cuMemAddressFree(address, 4 * kUnit), kInvalidValue) << "something is mapped";
  EXPECT_EQ(cuMemUnmap(address, 4096), kInvalidValue) << "a part of a mapping";
  EXPECT_EQ(cuMemUnmap(address, 3 * kUnit), kInvalidValue) << "a gap";
  const CUmemAccessDesc stranger = {{kLocationTypeDevice, 1}, kAccessReadWrite};
  EXPECT_EQ(cuMemSetAccess(address, kUnit, &stranger, 1), kInvalidDevice);
  // The memory lives as long as it is mapped.
  EXPECT_EQ(cuMemRelease(handle), kSuccess);
  EXPECT_EQ(cuMemRelease(handle), kInvalidValue);
  EXPECT_EQ(cudaDoubleLive().allocations, 1U);
  EXPECT_EQ(cuMemUnmap(address, 2 * kUnit), kSuccess);
  EXPECT_EQ(cudaDoubleLive().allocations, 0U);
  EXPECT_EQ(cuMemAddressFree(address, kUnit), kInvalidValue);
  EXPECT_EQ(cuMemAddressFree(address, 4 * kUnit), kSuccess);
}

TEST_F(CudaDouble, LetsCopiesDoWhatTheAccessRightsAllow) {
  Bytes host(16);
  start();
  {
    Mapped mapped(kUnit, kAccessRead);
    poke(mapped.address(), Bytes(16, 3));
    EXPECT_EQ(cuMemcpyAsync(as_address(host.data()), mapped.address(), 16, nullptr), kSuccess);
    EXPECT_EQ(cuStreamSynchronize(nullptr), kSuccess);
    EXPECT_EQ(host, Bytes(16, 3));
    EXPECT_EQ(cuMemsetD8Async(mapped.address(), 9, 16, nullptr), kInvalidValue);
    EXPECT_EQ(cuMemcpyAsync(mapped.address(), as_address(host.data()), 16, nullptr), kInvalidValue);
    EXPECT_EQ(cuStreamSynchronize(nullptr), kSuccess) << "as on an H200, it does not stick";
    EXPECT_EQ(peek(mapped.address(), 16), Bytes(16, 3));
  }
}

TEST_F(CudaDouble, GivesNoAccessUntilItIsSet) {
  Bytes host(16);
  start();
  const Mapped mapped(kUnit, kAccessNone);
  EXPECT_EQ(cuMemcpyAsync(as_address(host.data()), mapped.address(), 16, nullptr), kSuccess);
  EXPECT_EQ(cuStreamSynchronize(nullptr), kIllegalAddress);
}

TEST_F(CudaDouble, CountsTheMemoryOfEachGpu) {
  start({{"BYTES", std::to_string(2 * kUnit)}, {"GPUS", "2"}});
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&free, &total), kSuccess);
  EXPECT_EQ(total, 2 * kUnit);
  EXPECT_EQ(free, 2 * kUnit);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc_v2(&address, 2 * kUnit + 1), kOutOfMemory);
  const CUdeviceptr one = allocate(1);
  const CUmemAllocationProp prop = shareable();
  const CUmemAllocationProp elsewhere = shareable(1);
  CUmemGenericAllocationHandle handle = 0;
  CUmemGenericAllocationHandle other = 0;
  EXPECT_EQ(cuMemCreate(&handle, 2 * kUnit, &prop, 0), kOutOfMemory);
  EXPECT_EQ(cuMemCreate(&other, 2 * kUnit, &elsewhere, 0), kSuccess);
  EXPECT_EQ(cuMemCreate(&handle, kUnit, &prop, 0), kSuccess);
  ASSERT_EQ(cuMemGetInfo_v2(&free, &total), kSuccess);
  EXPECT_EQ(free, kUnit - 4096);
  EXPECT_EQ(cuMemFree_v2(one), kSuccess);
  EXPECT_EQ(cuMemRelease(handle), kSuccess);
  EXPECT_EQ(cuMemRelease(other), kSuccess);
  ASSERT_EQ(cuMemGetInfo_v2(&free, &total), kSuccess);
  EXPECT_EQ(free, 2 * kUnit);
}

TEST_F(CudaDouble, CountsWhatIsLive) {
  start();
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr linear = allocate(10);
  alignas(4096) static unsigned char host[4096];
  ASSERT_EQ(cuMemHostRegister_v2(host, sizeof(host), 0), kSuccess);
  {
    const Mapped mapped(kUnit);
    const CudaDoubleLive live = cudaDoubleLive();
    EXPECT_EQ(live.allocations, 2U);
    EXPECT_EQ(live.reservations, 2U);
    EXPECT_EQ(live.mappings, 2U);
    EXPECT_EQ(live.registrations, 1U);
    EXPECT_EQ(live.streams, 1U);
    EXPECT_EQ(live.events, 1U);
    EXPECT_EQ(live.contexts, 1U);
    EXPECT_EQ(cudaDoubleReset(), 10U) << "nothing is reset as long as something is live";
  }
  EXPECT_EQ(cuMemHostUnregister(host), kSuccess);
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  EXPECT_EQ(cuEventDestroy_v2(event), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
}

TEST_F(CudaDouble, PinsHostMemoryOnce) {
  start();
  constexpr std::size_t kPage = 4096;
  void* const mapped =
      ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const bytes = static_cast<char*>(mapped);
  ASSERT_EQ(::mprotect(bytes + 3 * kPage, kPage, PROT_READ), 0);
  EXPECT_EQ(cuMemHostRegister_v2(bytes, 0, 0), kInvalidValue);
  EXPECT_EQ(cuMemHostRegister_v2(bytes, kPage, 0x100), kInvalidValue);
  EXPECT_EQ(cuMemHostRegister_v2(bytes, 2 * kPage, kHostRegisterPortable), kSuccess);
  EXPECT_EQ(cuMemHostRegister_v2(bytes + kPage, 2 * kPage, 0), kHostMemoryAlreadyRegistered);
  EXPECT_EQ(cuMemHostRegister_v2(bytes + 2 * kPage, 2 * kPage, 0), kInvalidValue)
      << "a part of it is read-only";
  EXPECT_EQ(cuMemHostRegister_v2(bytes + 2 * kPage, 2 * kPage, kHostRegisterReadOnly), kSuccess);
  const CUdeviceptr linear = allocate(3 * kPage);
  EXPECT_EQ(cuMemcpyAsync(linear, as_address(bytes), 3 * kPage, nullptr), kInvalidValue)
      << "across two registrations";
  EXPECT_EQ(cuMemcpyAsync(linear, as_address(bytes + 2 * kPage), kPage, nullptr), kSuccess);
  EXPECT_EQ(cuStreamSynchronize(nullptr), kSuccess);
  EXPECT_EQ(cuMemHostUnregister(bytes + kPage), kHostMemoryNotRegistered);
  EXPECT_EQ(cuMemHostUnregister(bytes), kSuccess);
  EXPECT_EQ(cuMemHostUnregister(bytes), kHostMemoryNotRegistered);
  EXPECT_EQ(cuMemcpyAsync(as_address(bytes + 2 * kPage), linear, 1, nullptr), kSuccess);
  EXPECT_EQ(cuStreamSynchronize(nullptr), kIllegalAddress) << "the GPU may only read there";
  EXPECT_EQ(cuMemHostUnregister(bytes + 2 * kPage), kIllegalAddress);
  EXPECT_EQ(cuMemFree_v2(linear), kIllegalAddress);
  ASSERT_EQ(::munmap(mapped, 4 * kPage), 0);
  EXPECT_EQ(count_live(), 1U) << "the context alone: what is given back is gone in spite of errors";
}

TEST_F(CudaDouble, RefusesToPinWhatIsNotMapped) {
  start();
  void* const gone = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(::munmap(gone, 4096), 0);
  EXPECT_EQ(cuMemHostRegister_v2(gone, 4096, kHostRegisterReadOnly), kInvalidValue);
}

}  // namespace
}  // namespace farwrite::cuda_double
