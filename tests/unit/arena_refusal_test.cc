// What an arena says of memory that it does not have.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "memory/arena.h"

namespace farwrite::memory {
namespace {

TEST(ArenaRefusals, SizesThatFitNothingAreNamedAndHarmNothing) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  ArenaOptions options;
  options.name = "test arena";
  options.limit_bytes = std::uint64_t{8} << 20;
  options.segment_bytes = kMost;
  const auto arena = Arena::create(std::move(options)).value();
  const Status refused = arena->allocate(kMost).status();
  EXPECT_NE(refused.message().find(std::to_string(kMost) + " bytes requested"), std::string::npos)
      << refused.message();
  EXPECT_TRUE(arena->allocate(100).ok());
}

}  // namespace
}  // namespace farwrite::memory
