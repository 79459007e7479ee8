#include "farwrite/memory_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "cuda/gpu_fixture.h"
#include "gpu/gpu_memory.h"
#include "gpu/local_memory.h"
#include "memory/copy.h"

namespace farwrite {
namespace {

using testing::HasSubstr;

TEST(MemoryKindTest, IsTheHostsUnlessAGpuIsNamed) {
  EXPECT_FALSE(MemoryKind().on_gpu());
  EXPECT_EQ(MemoryKind().to_string(), "host");
  EXPECT_EQ(MemoryKind::cuda(3).to_string(), "cuda:3");
  EXPECT_EQ(MemoryKind::cuda(3).ordinal(), 3);
}

TEST(MemoryKindTest, ReadsWhatItWrites) {
  for (const MemoryKind kind : {MemoryKind(), MemoryKind::cuda(0), MemoryKind::cuda(12)}) {
    EXPECT_EQ(MemoryKind::parse(kind.to_string()).value(), kind);
  }
  EXPECT_EQ(MemoryKind::parse("cuda").value(), MemoryKind::cuda(0));
}

TEST(MemoryKindTest, RefusesAnythingElse) {
  for (const char* text :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda0", "host:0", "cuda:99999999999999999999"}) {
    const auto parsed = MemoryKind::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(parsed.status().message(), HasSubstr("not a kind of memory"));
  }
}

TEST(MemoryKindTest, OfANegativeNumberIsNoHostMemory) {
  for (const int number : {-1, -5}) {
    const MemoryKind kind = MemoryKind::cuda(number);
    EXPECT_TRUE(kind.on_gpu());
    EXPECT_NE(kind, MemoryKind());
    EXPECT_FALSE(MemoryKind::parse(kind.to_string()).ok()) << kind.to_string();
    EXPECT_EQ(wait_for_stream(kind, 1).code(), StatusCode::kInvalidArgument);
  }
}

TEST(MemoryKindTest, TheHostHasNoStreams) {
  EXPECT_EQ(wait_for_stream(MemoryKind(), 1).code(), StatusCode::kInvalidArgument);
}

TEST(MemoryKindTest, CopiesBetweenHostAndGpu) {
  ASSERT_NO_FATAL_FAILURE(open_cuda_double());
  auto gpu = gpu::Gpu::at(0);
  ASSERT_TRUE(gpu.ok()) << gpu.status().message();
  auto memory = gpu::GpuMemory::allocate(**gpu, 100);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_EQ(kind_of_memory((*memory)->base()).value(), MemoryKind::cuda(0));
  EXPECT_EQ(kind_of_memory((*memory)->base() + 99).value(), MemoryKind::cuda(0));
  std::array<char, 6> text{"hello"};
  EXPECT_EQ(kind_of_memory(text.data()).value(), MemoryKind());
  ASSERT_TRUE(copy_memory((*memory)->base(), text.data(), text.size()).ok());
  EXPECT_EQ(bytes_on_gpu((*memory)->base(), 1).at(0), std::byte{'h'});
  std::array<char, 6> back{};
  ASSERT_TRUE(copy_memory(back.data(), (*memory)->base(), back.size()).ok());
  EXPECT_EQ(std::string(back.data()), "hello");
}

}  // namespace
}  // namespace farwrite
