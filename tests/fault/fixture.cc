#include "fault/fixture.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>

#include "core/deadline.h"

namespace farwrite::fault {
namespace {

std::set<std::string> entries(const std::string& folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    names.insert(entry.path().filename());
  }
  return names;
}

}  // namespace

DeviceOptions quick_options() {
  DeviceOptions options;
  options.detection_time = kDetection;
  options.send_limit = options.send_limit_per_peer = std::uint64_t{64} << 20;
  options.receive_limit = options.receive_limit_per_peer = std::uint64_t{64} << 20;
  options.segment_bytes = options.receive_segment_bytes = std::uint64_t{2} << 20;
  options.prefault = false;
  return options;
}

Device open_device(const DeviceOptions& options) { return Device::open(options).value(); }

bool eventually(const std::function<bool()>& holds) {
  const core::Deadline deadline = core::Deadline::after(kPatience);
  while (!holds()) {
    if (deadline.expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Holdings Holdings::now() {
  Holdings holdings;
  for (const std::string& number : entries("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink("/proc/self/fd/" + number, gone);
    // The folder's own descriptor is gone by now.
    if (!gone) holdings.descriptors.insert(number + " " + target.string());
  }
  holdings.threads = entries("/proc/self/task").size();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const bool shared =
        line.find("memfd:") != std::string::npos || line.find("/dev/shm/") != std::string::npos;
    if (shared) ++holdings.mapped_files;
  }
  return holdings;
}

bool Holdings::within(const Holdings& before) const {
  const auto included = [](const std::set<std::string>& some, const std::set<std::string>& all) {
    return std::includes(all.begin(), all.end(), some.begin(), some.end());
  };
  return included(descriptors, before.descriptors) && threads <= before.threads &&
         mapped_files <= before.mapped_files;
}

void PrintTo(const Holdings& holdings, std::ostream* out) {
  *out << holdings.threads << " threads, " << holdings.mapped_files
       << " mapped memory files, descriptors:";
  for (const std::string& descriptor : holdings.descriptors) *out << "\n  " << descriptor;
}

FaultTest::FaultTest() {
  // The first device makes what the process then keeps for good.
  (void)open_device().close();
  before_ = Holdings::now();
}

void FaultTest::TearDown() {
  EXPECT_TRUE(eventually([this] { return Holdings::now().within(before_); }))
      << "something leaked; now: " << ::testing::PrintToString(Holdings::now())
      << "\nbefore: " << ::testing::PrintToString(before_);
}

void expect_error(const Status& status, StatusCode code, const std::set<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos)
        << "\"" << word << "\" is missing in: " << status.message();
  }
}

void expect_dead(Channel& channel) {
  EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kDead; }))
      << to_string(channel.peer_state());
  expect_error(channel.notify(1).wait(kPatience), StatusCode::kPeerDead,
               {channel.peer().endpoint.to_string(), "shm", "process is gone", "connect again"});
  EXPECT_TRUE(eventually([&] {
    const ChannelStats stats = channel.stats();
    return stats.leases_granted == stats.leases_released;
  })) << channel.stats().leases_granted
      << " granted, " << channel.stats().leases_released << " released";
}

PingPong::PingPong(Channel channel) : channel_(std::move(channel)), thread_([this] { run(); }) {}

PingPong::~PingPong() {
  stopping_.store(true);
  thread_.join();
}

void PingPong::expect_undisturbed() {
  const std::uint64_t before = rounds_.load();
  EXPECT_TRUE(eventually([&] { return failed_.load() || rounds_.load() >= before + 100; }));
  EXPECT_FALSE(failed_.load()) << "a round failed";
  EXPECT_TRUE(eventually([&] { return channel_.peer_state() == PeerState::kAlive; }));
}

void PingPong::run() {
  for (std::uint32_t tag = 1; !stopping_.load(); ++tag) {
    if (!channel_.notify(tag).wait(kPatience).ok()) break;
    auto answer = channel_.wait_notification(kPatience);
    if (!answer.ok() || answer->tag != tag) break;
    rounds_.fetch_add(1);
  }
  if (!stopping_.load()) failed_.store(true);
}

}  // namespace farwrite::fault
