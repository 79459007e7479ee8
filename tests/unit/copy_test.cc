#include "memory/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "memory/copy_families.h"

namespace farwrite::memory {
namespace {

constexpr std::size_t kGuard = 128;
constexpr std::byte kUntouched{0xA5};

// A byte depends on its position in a way that no shift of a line or a page reproduces.
std::byte pattern(std::size_t at) {
  const std::uint64_t mixed = (at + 1) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::byte>(mixed >> 56);
}

class CopyCase {
 public:
  explicit CopyCase(std::size_t most)
      : source_(most + 2 * kGuard), destination_(most + 4 * kGuard, kUntouched) {
    for (std::size_t i = 0; i < source_.size(); ++i) source_[i] = pattern(i);
  }

  // Copies and checks every byte, and that those before and after stay as they were.
  ::testing::AssertionResult copies(CopyFunction copy, std::size_t bytes, std::size_t to_offset,
                                    std::size_t from_offset) {
    std::byte* const to = aligned(destination_) + kGuard + to_offset;
    const std::byte* const from = aligned(source_) + from_offset;
    copy(to, from, bytes);
    if (bytes != 0 && std::memcmp(to, from, bytes) != 0) {
      return ::testing::AssertionFailure() << "bytes differ";
    }
    const bool before = std::all_of(to - kGuard, to, [](std::byte b) { return b == kUntouched; });
    const bool after =
        std::all_of(to + bytes, to + bytes + kGuard, [](std::byte b) { return b == kUntouched; });
    std::fill_n(to, bytes, kUntouched);
    if (!before || !after) return ::testing::AssertionFailure() << "wrote outside its destination";
    return ::testing::AssertionSuccess();
  }

 private:
  static std::byte* aligned(std::vector<std::byte>& bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    return bytes.data() + (64 - address % 64) % 64;
  }

  std::vector<std::byte> source_;
  std::vector<std::byte> destination_;
};

class EveryCopyKernel : public ::testing::TestWithParam<CopyKernel> {};

TEST_P(EveryCopyKernel, CopiesShortLengthsAtEveryAlignmentPair) {
  CopyCase buffers(256);
  for (const std::size_t bytes : {0, 1, 7, 63, 64, 65, 127, 128, 200}) {
    for (std::size_t to = 0; to < 64; to += 3) {
      for (std::size_t from = 0; from < 64; from += 5) {
        ASSERT_TRUE(buffers.copies(GetParam().function, bytes, to, from))
            << bytes << " bytes, destination + " << to << ", source + " << from;
      }
    }
  }
}

TEST_P(EveryCopyKernel, CopiesLengthsAroundPagesAndItsBlock) {
  constexpr std::size_t kBlock = 4 * 4096;
  CopyCase buffers(4 * kBlock);
  for (const std::size_t middle : {std::size_t{4096}, kBlock, 2 * kBlock, 3 * kBlock}) {
    for (const std::size_t bytes :
         {middle - 65, middle - 64, middle - 1, middle, middle + 1, middle + 63}) {
      for (const std::size_t to : {0, 1, 31, 63}) {
        for (const std::size_t from : {0, 1, 32, 61}) {
          ASSERT_TRUE(buffers.copies(GetParam().function, bytes, to, from))
              << bytes << " bytes, destination + " << to << ", source + " << from;
        }
      }
    }
  }
}

TEST_P(EveryCopyKernel, CopiesLargeOddLengths) {
  constexpr std::size_t kLarge = (std::size_t{5} << 20) + 12345;
  CopyCase buffers(kLarge);
  for (const std::size_t bytes :
       {kStreamingCopyBytes - 1, kStreamingCopyBytes, kStreamingCopyBytes + 1, kLarge}) {
    ASSERT_TRUE(buffers.copies(GetParam().function, bytes, 0, 0)) << bytes;
    ASSERT_TRUE(buffers.copies(GetParam().function, bytes, 17, 3)) << bytes;
  }
}

// Not copy_kernels(): that would make the process's choice before a test sets the environment.
std::vector<CopyKernel> supported_kernels() {
  std::vector<CopyKernel> kernels;
  append_x86_kernels(kernels);
  append_aarch64_kernels(kernels);
  append_generic_kernels(kernels);
  std::erase_if(kernels, [](const CopyKernel& kernel) { return !kernel.supported; });
  return kernels;
}

INSTANTIATE_TEST_SUITE_P(Machine, EveryCopyKernel, ::testing::ValuesIn(supported_kernels()),
                         [](const ::testing::TestParamInfo<CopyKernel>& kernel) {
                           std::string name(kernel.param.name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CopyBytes, IsRightOnBothSidesOfItsThreshold) {
  CopyCase buffers(2 * kStreamingCopyBytes);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, kStreamingCopyBytes - 1, kStreamingCopyBytes,
        kStreamingCopyBytes + 1, 2 * kStreamingCopyBytes}) {
    EXPECT_TRUE(buffers.copies(copy_bytes, bytes, 5, 11)) << bytes;
  }
}

TEST(CopyBytes, AcceptsNullPointersForZeroBytes) { copy_bytes(nullptr, nullptr, 0); }

TEST(CopyKernels, ListMemcpyAndExactlyOneChosenKernelThatTheCpuSupports) {
  const std::vector<CopyKernel> kernels = copy_kernels();
  const auto is_memcpy = [](const CopyKernel& kernel) { return kernel.name == "memcpy"; };
  EXPECT_EQ(std::count_if(kernels.begin(), kernels.end(), is_memcpy), 1);
  int chosen = 0;
  for (const CopyKernel& kernel : kernels) {
    if (!kernel.chosen) continue;
    ++chosen;
    EXPECT_TRUE(kernel.supported);
    EXPECT_EQ(kernel.name, probe_copy_kernels().name);
  }
  EXPECT_EQ(chosen, 1);
}

// The choice is made once per process, so each of these asks in a process of its own.
int chosen_is(const char* wanted, const char* expected) {
  ::setenv("FARWRITE_COPY_KERNEL", wanted, 1);
  return probe_copy_kernels().name == expected ? 0 : 1;
}

TEST(FastestKernel, IsMemcpyWithoutAProbeAndNeverOneThatTheCpuCannotRun) {
  std::vector<CopyKernel> kernels = {{"nt-wide", nullptr, false, 0.0, false},
                                     {"nt", nullptr, true, 0.0, false},
                                     {"memcpy", nullptr, true, 0.0, false}};
  EXPECT_EQ(2U, fastest_kernel(kernels));
  kernels[2].probed_gb_s = 10.0;
  EXPECT_EQ(2U, fastest_kernel(kernels));
  kernels[1].probed_gb_s = 10.1;
  EXPECT_EQ(2U, fastest_kernel(kernels)) << "it has to be clearly faster";
  kernels[1].probed_gb_s = 12.0;
  EXPECT_EQ(1U, fastest_kernel(kernels));
}

TEST(CopyKernelsDeathTest, TheEnvironmentVariableOverridesTheProbe) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(std::exit(chosen_is("memcpy", "memcpy")), ::testing::ExitedWithCode(0), "");
}

TEST(CopyKernelsDeathTest, ABadNameIsIgnoredWithAWarningThatListsTheGoodOnes) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const bool ignored = chosen_is("warp-drive", "warp-drive") == 1;
        std::exit(ignored ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "FARWRITE_COPY_KERNEL=warp-drive.*memcpy");
}

}  // namespace
}  // namespace farwrite::memory
