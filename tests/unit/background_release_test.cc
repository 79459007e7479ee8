#include "memory/background_release.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "device/device.h"
#include "memory/arena.h"
#include "memory/segment.h"

namespace farwrite::memory {
namespace {

constexpr std::uint64_t kMuch = std::uint64_t{8} << 20;

// While it lives, nothing else is released.
class HeldUp {
 public:
  HeldUp() {
    release_in_background(kMuch, [end = end_.get_future().share()] { end.wait(); });
  }
  ~HeldUp() { end_.set_value(); }
  HeldUp(const HeldUp&) = delete;
  HeldUp& operator=(const HeldUp&) = delete;

 private:
  std::promise<void> end_;
};

bool is_open(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (target.string().find(name) != std::string::npos) return true;
  }
  return false;
}

std::shared_ptr<Segment> make(const std::string& name, std::uint64_t bytes) {
  SegmentOptions options;
  options.bytes = bytes;
  options.name = name;
  options.huge_pages = HugePages::kOff;
  return Segment::create(options).value();
}

TEST(BackgroundRelease, TakesALargeSegmentFromItsLastOwner) {
  auto large = make("a large segment", kMuch);
  auto small = make("a small segment", 4096);
  {
    const HeldUp held;
    large.reset();
    small.reset();
    EXPECT_TRUE(is_open("a large segment"));
    EXPECT_FALSE(is_open("a small segment"));
  }
  wait_for_background_releases();
  EXPECT_FALSE(is_open("a large segment"));
}

// Without the wait, an arena at its limit would find its addresses taken.
TEST(BackgroundRelease, IsOverBeforeAnArenaGrows) {
  ArenaOptions options;
  options.limit_bytes = options.segment_bytes = kMuch;
  auto arena = Arena::create(options).value();
  arena->free(arena->allocate(kMuch).value().data);
  auto held = std::make_unique<HeldUp>();
  arena->trim();
  auto after = std::async(std::launch::async, [&] { return arena->allocate(kMuch); });
  EXPECT_EQ(after.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  held.reset();
  arena->free(after.get().value().data);
}

TEST(BackgroundRelease, KeepsNeitherAChannelNorADeviceFromClosing) {
  DeviceOptions options;
  options.fabrics = {FabricKind::kTcp};
  Device near = Device::open(options).value();
  Device far = Device::open(options).value();
  Channel from = near.connect(far.endpoint(), std::chrono::seconds(20)).value();
  Channel to = far.accept(std::chrono::seconds(20)).value();
  ASSERT_TRUE(near.allocate(kMuch).ok());
  ASSERT_TRUE(to.allocate(4 * kMuch).ok());
  const HeldUp held;
  EXPECT_TRUE(from.close().ok());
  EXPECT_TRUE(to.close().ok());
  EXPECT_TRUE(near.close().ok());
  EXPECT_TRUE(far.close().ok());
}

TEST(BackgroundRelease, IsOverBeforeAFork) {
  auto going = make("a segment that goes", kMuch);
  auto held = std::make_unique<HeldUp>();
  going.reset();
  std::thread later([&held] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    held.reset();
  });
  const pid_t child = ::fork();
  // Not by _exit(): TSan takes `later`, which the child cannot join, for a leak.
  if (child == 0) ::syscall(SYS_exit_group, is_open("a segment that goes") ? 1 : 0);
  later.join();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace farwrite::memory
