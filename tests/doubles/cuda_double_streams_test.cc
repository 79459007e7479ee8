// What others rely on in the CUDA double's streams and events: nothing happens before it is
// synchronized, and everything has happened after.
#include <algorithm>
#include <chrono>
#include <thread>

#include "doubles/cuda_double_fixture.h"

namespace farwrite::cuda_double {
namespace {

using CudaDoubleStreams = CudaDoubleTest;

const CUstream kLegacy = nullptr;
const CUstream kPerThread = reinterpret_cast<CUstream>(2);

TEST_F(CudaDoubleStreams, LeaveOldBytesUntilSynchronized) {
  start();
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr linear = allocate(64);
  Bytes host(64, 1);
  cudaDoublePause();
  EXPECT_EQ(cuMemsetD8Async(linear, 5, 64, stream), kSuccess);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(host.data(), linear, 64, stream), kSuccess);
  EXPECT_EQ(cuEventRecord(event, stream), kSuccess);
  EXPECT_EQ(cuEventQuery(event), kNotReady);
  EXPECT_EQ(cuStreamQuery(stream), kNotReady);
  EXPECT_EQ(host, Bytes(64, 1));
  EXPECT_EQ(peek(linear, 64), Bytes(64, 0));
  cudaDoubleResume();
  EXPECT_EQ(cuEventSynchronize(event), kSuccess);
  EXPECT_EQ(cuEventQuery(event), kSuccess);
  EXPECT_EQ(cuStreamQuery(stream), kSuccess);
  EXPECT_EQ(host, Bytes(64, 5));
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  EXPECT_EQ(cuEventDestroy_v2(event), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
}

TEST_F(CudaDoubleStreams, MoveBytesInPieces) {
  start();
  const CUstream stream = make_stream();
  const CUdeviceptr linear = allocate(64);
  cudaDoublePause();
  EXPECT_EQ(cuMemsetD8Async(linear, 5, 64, stream), kSuccess);
  EXPECT_EQ(cudaDoubleStep(1), 1U);
  Bytes torn = peek(linear, 64);
  EXPECT_EQ(std::count(torn.begin(), torn.end(), 5), 16);
  EXPECT_EQ(cudaDoubleStep(2), 2U);
  torn = peek(linear, 64);
  EXPECT_EQ(std::count(torn.begin(), torn.end(), 5), 48);
  EXPECT_EQ(cudaDoubleStep(10), 1U) << "no more is left";
  EXPECT_EQ(peek(linear, 64), Bytes(64, 5));
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
}

TEST_F(CudaDoubleStreams, MoveBytesFromEitherEnd) {
  start();
  const CUdeviceptr linear = allocate(64);
  cudaDoublePause();
  unsigned firsts = 0;
  unsigned lasts = 0;
  for (int i = 1; i <= 4; ++i) {
    const auto value = static_cast<unsigned char>(i);
    EXPECT_EQ(cuMemsetD8Async(linear, value, 64, kLegacy), kSuccess);
    EXPECT_EQ(cudaDoubleStep(1), 1U);
    const Bytes torn = peek(linear, 64);
    firsts += torn.front() == value ? 1 : 0;
    lasts += torn.back() == value ? 1 : 0;
    EXPECT_EQ(cudaDoubleStep(3), 3U);
  }
  EXPECT_EQ(firsts, 2U);
  EXPECT_EQ(lasts, 2U);
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
}

TEST_F(CudaDoubleStreams, OvertakeEachOther) {
  start();
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUdeviceptr linear = allocate(128);
  cudaDoublePause();
  EXPECT_EQ(cuMemsetD8Async(linear, 1, 64, first), kSuccess);
  EXPECT_EQ(cuMemsetD8Async(linear + 64, 2, 64, second), kSuccess);
  unsigned pieces = 0;
  while (cuStreamQuery(second) == kNotReady) pieces += cudaDoubleStep(1);
  EXPECT_LE(pieces, 6U);
  EXPECT_EQ(cuStreamQuery(first), kNotReady) << "the later call came last";
  cudaDoubleResume();
  EXPECT_EQ(cuStreamSynchronize(first), kSuccess);
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(first), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(second), kSuccess);
}

TEST_F(CudaDoubleStreams, WaitForEventsOfOthers) {
  start();
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr linear = allocate(64);
  Bytes host(64, 1);
  EXPECT_EQ(cuStreamWaitEvent(second, event, 0), kSuccess) << "an event that was never recorded";
  cudaDoublePause();
  EXPECT_EQ(cuMemsetD8Async(linear, 5, 64, first), kSuccess);
  EXPECT_EQ(cuEventRecord(event, first), kSuccess);
  EXPECT_EQ(cuMemsetD8Async(linear, 6, 64, first), kSuccess);
  EXPECT_EQ(cuStreamWaitEvent(second, event, 0), kSuccess);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(host.data(), linear, 64, second), kSuccess);
  // The wait is for what was recorded then, whatever becomes of the event.
  EXPECT_EQ(cuEventDestroy_v2(event), kSuccess);
  EXPECT_EQ(cudaDoubleStep(4), 4U) << "the first fill alone may move";
  EXPECT_EQ(peek(linear, 64), Bytes(64, 5));
  EXPECT_EQ(host, Bytes(64, 1));
  cudaDoubleResume();
  EXPECT_EQ(cuStreamSynchronize(second), kSuccess);
  EXPECT_NE(host, Bytes(64, 1));
  EXPECT_EQ(cuStreamSynchronize(first), kSuccess);
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(first), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(second), kSuccess);
}

TEST_F(CudaDoubleStreams, RecordAnEventAnew) {
  start();
  const CUstream stream = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr linear = allocate(64);
  EXPECT_EQ(cuEventQuery(event), kSuccess) << "an event that was never recorded";
  EXPECT_EQ(cuEventRecord(event, stream), kSuccess);
  EXPECT_EQ(cuEventSynchronize(event), kSuccess);
  cudaDoublePause();
  EXPECT_EQ(cuMemsetD8Async(linear, 5, 64, stream), kSuccess);
  EXPECT_EQ(cuEventQuery(event), kSuccess) << "what came after the record is no part of it";
  EXPECT_EQ(cuEventRecord(event, stream), kSuccess);
  EXPECT_EQ(cuEventQuery(event), kNotReady);
  cudaDoubleResume();
  EXPECT_EQ(cuEventSynchronize(event), kSuccess);
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  EXPECT_EQ(cuEventDestroy_v2(event), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
}

// The legacy stream and a blocking stream wait for each other; a non-blocking one takes no part.
TEST_F(CudaDoubleStreams, FollowTheLegacyStreamsRule) {
  start();
  const CUstream blocking = make_stream(0);
  const CUstream apart = make_stream();
  const CUevent event = make_event();
  const CUdeviceptr linear = allocate(192);
  cudaDoublePause();
  EXPECT_EQ(cuMemsetD8Async(linear, 1, 64, blocking), kSuccess);
  EXPECT_EQ(cuStreamQuery(kLegacy), kNotReady) << "it covers the blocking streams";
  EXPECT_EQ(cuMemsetD8Async(linear, 2, 64, kLegacy), kSuccess);
  EXPECT_EQ(cuEventRecord(event, kLegacy), kSuccess);
  EXPECT_EQ(cuMemsetD8Async(linear, 3, 64, kPerThread), kSuccess);
  EXPECT_EQ(cudaDoubleStep(4), 4U);
  EXPECT_EQ(peek(linear, 64), Bytes(64, 1));
  EXPECT_EQ(cuEventQuery(event), kNotReady);
  EXPECT_EQ(cudaDoubleStep(4), 4U);
  EXPECT_EQ(peek(linear, 64), Bytes(64, 2));
  // Newer than the per-thread stream's fill, and tied to nothing.
  EXPECT_EQ(cuMemsetD8Async(linear + 64, 4, 64, apart), kSuccess);
  while (cuStreamQuery(apart) == kNotReady) EXPECT_EQ(cudaDoubleStep(1), 1U);
  EXPECT_EQ(cuStreamQuery(kPerThread), kNotReady);
  cudaDoubleResume();
  EXPECT_EQ(cuStreamSynchronize(kLegacy), kSuccess);
  EXPECT_EQ(peek(linear, 64), Bytes(64, 3)) << "synchronizing the legacy stream covers all of it";
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  EXPECT_EQ(cuEventDestroy_v2(event), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(blocking), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(apart), kSuccess);
}

TEST_F(CudaDoubleStreams, DelayWhatTheEnvironmentDelays) {
  constexpr auto kDelay = std::chrono::milliseconds(30);
  start({{"DELAY_US", "30000"}});
  const CUdeviceptr linear = allocate(64);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(cuMemsetD8Async(linear, 5, 64, kLegacy), kSuccess);
  EXPECT_EQ(cuStreamSynchronize(kLegacy), kSuccess);
  EXPECT_GE(std::chrono::steady_clock::now() - before, kDelay);
  EXPECT_EQ(peek(linear, 64), Bytes(64, 5));
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
}

TEST_F(CudaDoubleStreams, FinishTheirWorkAfterTheyAreDestroyed) {
  start();
  const CUstream stream = make_stream();
  const CUdeviceptr linear = allocate(64);
  cudaDoublePause();
  EXPECT_EQ(cuMemsetD8Async(linear, 5, 64, stream), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
  EXPECT_EQ(cuStreamQuery(stream), kInvalidHandle);
  EXPECT_EQ(cudaDoubleStep(10), 4U);
  EXPECT_EQ(peek(linear, 64), Bytes(64, 5));
  EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
}

TEST_F(CudaDoubleStreams, AreWaitedForByAFree) {
  start();
  const CUdeviceptr linear = allocate(64);
  Bytes host(64, 1);
  cudaDoublePause();
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(host.data(), linear, 64, kLegacy), kSuccess);
  std::thread frees([&] {
    EXPECT_EQ(cuCtxPushCurrent_v2(context()), kSuccess);
    EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
  });
  EXPECT_EQ(cudaDoubleStep(3), 3U);
  EXPECT_EQ(cudaDoubleLive().allocations, 1U) << "a quarter of the copy is to come";
  cudaDoubleResume();
  frees.join();
  EXPECT_EQ(host, Bytes(64, 0));
  EXPECT_EQ(cudaDoubleLive().allocations, 0U);
}

TEST_F(CudaDoubleStreams, FailIfTheirMemoryIsUnmapped) {
  start();
  const CUstream stream = make_stream();
  const CUdeviceptr linear = allocate(64);
  Mapped mapped(kUnit);
  cudaDoublePause();
  EXPECT_EQ(cuMemcpyDtoDAsync_v2(linear, mapped.address(), 64, stream), kSuccess);
  EXPECT_EQ(cudaDoubleStep(1), 1U);
  mapped.unmap();
  cudaDoubleResume();
  EXPECT_EQ(cuStreamSynchronize(stream), kIllegalAddress);
  EXPECT_EQ(cuMemsetD8Async(linear, 1, 64, kLegacy), kIllegalAddress) << "it sticks";
  EXPECT_EQ(cuMemFree_v2(linear), kIllegalAddress);
  EXPECT_EQ(cuStreamDestroy_v2(stream), kIllegalAddress);
}

TEST_F(CudaDoubleStreams, FailIfTheirHostMemoryIsUnpinned) {
  start();
  alignas(4096) static unsigned char host[4096];
  const CUdeviceptr linear = allocate(64);
  ASSERT_EQ(cuMemHostRegister_v2(host, sizeof(host), 0), kSuccess);
  cudaDoublePause();
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(host, linear, 64, kLegacy), kSuccess);
  EXPECT_EQ(cuMemHostUnregister(host), kSuccess);
  cudaDoubleResume();
  EXPECT_EQ(cuStreamSynchronize(kLegacy), kIllegalAddress);
  EXPECT_EQ(cuMemFree_v2(linear), kIllegalAddress);
}

TEST_F(CudaDoubleStreams, BelongToTheirContext) {
  start({{"GPUS", "2"}});
  const CUevent event = make_event();
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), kSuccess);
  ASSERT_EQ(cuCtxPushCurrent_v2(other), kSuccess);
  const CUstream stream = make_stream();
  EXPECT_EQ(cuEventRecord(event, stream), kInvalidHandle);
  EXPECT_EQ(cuEventRecord(event, kLegacy), kInvalidHandle);
  EXPECT_EQ(cuStreamWaitEvent(stream, event, 0), kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
  EXPECT_EQ(cuCtxPopCurrent_v2(&other), kSuccess);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(1), kSuccess);
  EXPECT_EQ(cuEventDestroy_v2(event), kSuccess);
}

TEST_F(CudaDoubleStreams, ServeManyThreads) {
  start();
  constexpr std::size_t kBytes = 100000;
  const auto work = [&](unsigned char number) {
    EXPECT_EQ(cuCtxPushCurrent_v2(context()), kSuccess);
    const CUstream stream = make_stream(number % 2);
    const CUevent event = make_event();
    Bytes host(kBytes);
    for (int round = 0; round < 10; ++round) {
      const CUdeviceptr linear = allocate(kBytes);
      EXPECT_EQ(cuMemsetD8Async(linear, number, kBytes, stream), kSuccess);
      EXPECT_EQ(cuMemcpyDtoHAsync_v2(host.data(), linear, kBytes, stream), kSuccess);
      EXPECT_EQ(cuEventRecord(event, stream), kSuccess);
      EXPECT_EQ(cuEventSynchronize(event), kSuccess);
      EXPECT_EQ(host, Bytes(kBytes, number));
      host.assign(kBytes, 0);
      EXPECT_EQ(cuMemFree_v2(linear), kSuccess);
    }
    EXPECT_EQ(cuEventDestroy_v2(event), kSuccess);
    EXPECT_EQ(cuStreamDestroy_v2(stream), kSuccess);
  };
  std::vector<std::thread> threads;
  for (unsigned char number = 1; number <= 4; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace farwrite::cuda_double
