// How two sides hand each other the memory of a GPU.
#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "cuda/gpu_fixture.h"
#include "gpu/gpu_memory.h"
#include "unit/segment_exchange_fixture.h"

namespace farwrite::fabric::shm {
namespace {

using GpuSegmentExchange = SegmentExchanges;

TEST_F(GpuSegmentExchange, HandOverAGpusMemoryWhileSomebodyMapsIt) {
  ASSERT_NO_FATAL_FAILURE(open_cuda_double());
  const gpu::Gpu* const gpu = gpu::Gpu::at(0).value();
  const auto segment = memory::Segment::on_gpu(gpu::GpuMemory::allocate(*gpu, 100).value(),
                                               memory::SegmentUse::kExport);
  const auto hand_over = [&] {
    auto obtained =
        std::async(std::launch::async, [&] { return near_->obtain(segment->id(), hang()); });
    (void)receive_packet(peer_.get(), hang(), "test").value();
    core::WireWriter packet;
    packet.u16(kAnswer);
    packet.u32(segment->id());
    write_answer(packet, /*found=*/true, &gpu->uuid(), segment->bytes());
    put(packet, {segment->gpu_memory().export_fd().value().get()});
    return obtained.get().value();
  };
  auto mapped = hand_over();
  EXPECT_EQ(mapped->gpu(), gpu);
  EXPECT_EQ(mapped->bytes(), segment->bytes());
  EXPECT_FALSE(mapped->writable());
  EXPECT_EQ(near_->obtain(segment->id(), hang()).value(), mapped) << "the same while it is held";
  mapped.reset();
  EXPECT_NE(hand_over(), nullptr) << "asked for again";
}

TEST_F(GpuSegmentExchange, RefuseAGpusMemoryThatIsNone) {
  ASSERT_NO_FATAL_FAILURE(open_cuda_double());
  const gpu::GpuUuid seen = gpu::Gpu::at(0).value()->uuid();
  const gpu::GpuUuid hidden{1, 2, 3};
  const auto host = make_segment(memory::SegmentUse::kExport);
  std::uint32_t id = 7;
  for (const auto& [uuid, code] :
       {std::pair(seen, StatusCode::kProtocolError), std::pair(hidden, StatusCode::kNotFound)}) {
    auto obtained =
        std::async(std::launch::async, [&] { return near_->obtain(id, hang()).status(); });
    (void)receive_packet(peer_.get(), hang(), "test").value();
    core::WireWriter packet;
    packet.u16(kAnswer);
    packet.u32(id);
    write_answer(packet, /*found=*/true, &uuid, host->bytes());
    ASSERT_NO_FATAL_FAILURE(put(packet, {host->fd()}));
    EXPECT_EQ(obtained.get().code(), code);
    ++id;
  }
}

}  // namespace
}  // namespace farwrite::fabric::shm
