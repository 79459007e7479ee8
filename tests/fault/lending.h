// Lending: a device that lends a page of its own and counts how often it comes back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>

#include "fault/fixture.h"

namespace farwrite::fault {

inline constexpr std::size_t kLentBytes = 4096;

class Lending : public FaultTest {
 protected:
  std::string endpoint() const { return device_.endpoint().to_string(); }
  Channel accept() { return device_.accept(kPatience).value(); }
  void TearDown() override {
    region_ = MemoryRegion();
    EXPECT_TRUE(device_.close(kPatience).ok());
    device_ = Device();
    FaultTest::TearDown();
  }
  // Lends the region's bytes, each of them a 'b', `count` times.
  void lend(Channel& channel, int count) {
    region_ = device_.allocate(kLentBytes).value();
    std::memset(region_.data(), 'b', kLentBytes);
    for (int i = 0; i < count; ++i) {
      const Completion lent =
          channel.lend({}, {region_.data(), kLentBytes}, [this] { ++returned_; });
      ASSERT_TRUE(lent.wait(kPatience).ok()) << lent.wait().to_string();
    }
  }

  Device device_ = open_device();
  MemoryRegion region_;
  std::atomic<int> returned_{0};
};

}  // namespace farwrite::fault
