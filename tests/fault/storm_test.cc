// Threads that allocate, connect, write, look up, ask and close, all at once. No call hangs, and
// none touches what another one has dropped: ThreadSanitizer and AddressSanitizer see to that.
#include <cstring>
#include <vector>

#include "fault/fixture.h"

namespace farwrite::fault {
namespace {

constexpr std::chrono::milliseconds kStorm(150);
constexpr std::size_t kStormBytes = 4096;

class Storm : public FaultTest, public ::testing::WithParamInterface<FabricKind> {
 protected:
  static DeviceOptions options() {
    DeviceOptions options = quick_options();
    options.fabrics = {GetParam()};
    options.lanes = 2;
    options.pollers = 2;
    options.send_limit = std::uint64_t{1} << 30;  // reserved; segments are made one by one
    return options;
  }

  // Runs `step` in a thread of its own until the storm is over.
  void storm(std::function<void()> step) {
    threads_.emplace_back([this, step = std::move(step)] {
      while (!over_.load()) step();
    });
  }
  void end_storm() {
    over_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    over_.store(false);
  }

  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

TEST_P(Storm, OfAllocationsThatGrowTheArenaWhileTheDeviceCloses) {
  for (int round = 0; round < 10; ++round) {
    Device device = open_device(options());
    std::atomic<int> grown{0};
    const auto allocate = [&] {
      std::vector<MemoryRegion> regions;
      while (true) {
        auto region = device.allocate(2 << 20);  // a segment
        if (!region.ok()) return;
        regions.push_back(*std::move(region));
        grown.fetch_add(1);
      }
    };
    const auto allocate_raw = [&] {
      std::vector<std::byte*> blocks;
      while (std::byte* const block = device.allocate_raw(2 << 20)) {
        blocks.push_back(block);
        grown.fetch_add(1);
      }
      for (std::byte* const block : blocks) device.free_raw(block);
    };
    std::thread one(allocate), other(allocate_raw);
    EXPECT_TRUE(eventually([&] { return grown.load() >= 4 + round; }));
    const Status closed = device.close(kPatience);
    EXPECT_TRUE(closed.ok()) << closed.to_string();
    one.join();
    other.join();
  }
}

TEST_P(Storm, OnOneChannelThatClosesMeanwhile) {
  constexpr int kRounds = 3;
  // Of each round. They outlive the devices: a close cancels operations, whose bytes may go on
  // moving.
  std::vector<std::vector<std::byte>> memory(kRounds, std::vector<std::byte>(kStormBytes));
  Device near = open_device(options()), far = open_device(options());
  MemoryRegion shown = far.allocate(kStormBytes).value();
  ASSERT_TRUE(far.publish("export", shown).ok());
  for (std::vector<std::byte>& bytes : memory) {
    Channel from = near.connect(far.endpoint(), kPatience).value();
    Channel to = far.accept(kPatience).value();
    ASSERT_TRUE(to.publish("landing", to.allocate(kStormBytes).value()).ok());
    for (Channel* channel : {&from, &to}) {
      storm([channel] { (void)channel->allocate(kStormBytes); });
      storm([channel] {
        (void)channel->notify(1, 1);
        (void)channel->try_notification();
        (void)channel->stats();
      });
      storm([channel] {
        (void)channel->on_notification([](const Notification&) {});
        (void)channel->on_notification(nullptr);
        (void)channel->on_end([](bool, const Status&) {});
      });
    }
    storm([&from, &bytes] {
      auto target = from.lookup("landing", std::chrono::milliseconds(50));
      auto source = from.lookup("export", std::chrono::milliseconds(50));
      if (!target.ok() || !source.ok()) return;
      const Completion written =
          from.write_with_notify({bytes.data(), kStormBytes}, *target, 0, 2, 1);
      const Completion read = from.read({bytes.data(), kStormBytes}, *source);
      (void)from.flush().wait(kPatience);
      (void)written.wait(kPatience);
      (void)read.wait(kPatience);
      EXPECT_TRUE(eventually([&] { return written.done() && read.done(); }));
    });
    std::this_thread::sleep_for(kStorm);
    std::thread closer([&to] { EXPECT_TRUE(to.close(kPatience).ok()); });
    EXPECT_TRUE(from.close(kPatience).ok());
    closer.join();
    end_storm();
  }
  EXPECT_TRUE(near.close(kPatience).ok());
  EXPECT_TRUE(far.close(kPatience).ok());
}

TEST_P(Storm, OfChannelsThatComeAndGoWhileTheirDevicesClose) {
  const std::vector<std::byte> bytes(kStormBytes);  // outlives the devices, as above
  for (int round = 0; round < 2; ++round) {
    Device near = open_device(options()), far = open_device(options());
    storm([&far] {
      auto channel = far.accept(std::chrono::milliseconds(20));
      if (!channel.ok()) return;
      auto landing = channel->allocate(kStormBytes);
      if (landing.ok()) (void)channel->publish("landing", *landing);
      (void)channel->on_notification([](const Notification&) {});
      (void)channel->wait_notification(std::chrono::milliseconds(5));
    });
    for (int i = 0; i < 2; ++i) {
      storm([&near, &far, &bytes, i] {
        auto channel = near.connect(far.endpoint(), std::chrono::milliseconds(500));
        if (!channel.ok()) return;
        auto target = channel->lookup("landing", std::chrono::milliseconds(100));
        if (target.ok()) {
          const Completion written = channel->write({bytes.data(), kStormBytes}, *target);
          (void)written.wait(kPatience);
          EXPECT_TRUE(eventually([&] { return written.done(); }));
        }
        if (i == 0) (void)channel->close(kPatience);
      });
    }
    for (Device* device : {&near, &far}) {
      storm([device] {
        std::byte* const block = device->allocate_raw(kStormBytes);
        device->free_raw(block);
        auto region = device->allocate(kStormBytes);
        if (region.ok()) (void)device->publish("export", *region);
        (void)device->unpublish("export");
      });
      storm([device] {
        (void)device->stats();
        (void)device->metrics_text();
      });
    }
    std::this_thread::sleep_for(kStorm);
    std::thread closer([&far] { EXPECT_TRUE(far.close(kPatience).ok()); });
    const Status closed = near.close(kPatience);
    EXPECT_TRUE(closed.ok()) << closed.to_string();
    closer.join();
    end_storm();
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFabric, Storm, ::testing::Values(FabricKind::kShm, FabricKind::kTcp),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace farwrite::fault
