// What is logged of a peer's end: one debug line if it ends normally or with its process, a
// warning that names it if it falls silent.
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/log.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

using core::LogLevel;

constexpr char kName[] = "/job:worker/replica:0/task:1";

// A peer with a name: ends as it is told, or lives on without its connections.
int named(const Arguments& arguments) {
  DeviceOptions options = quick_options();
  options.name = kName;
  auto device = Device::open(options);
  FARWRITE_REQUIRE_OK(device.status());
  auto channel = device->connect(Endpoint::parse(arguments.at(0)).value(), kPatience);
  FARWRITE_REQUIRE_OK(channel.status());
  say("connected");
  const std::string order = hear().value_or("");
  if (order == "close") (void)device->close(kPatience);
  if (order == "exit") ::_exit(0);
  return 0;
}
const RoleRegistration kNamed("named", named);

class Lines {
 public:
  void add(LogLevel level, std::string_view text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lines_.emplace_back(level, text);
  }
  void clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    lines_.clear();
  }
  // Those that contain `text`, as "warning: ...".
  std::vector<std::string> with(std::string_view text) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string> found;
    for (const auto& [level, line] : lines_) {
      if (line.find(text) == std::string::npos) continue;
      found.push_back(std::string(to_string(level)) + ": " + line);
    }
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> lines_;
};

// A sink is never taken away, so all tests share one.
Lines& lines() {
  static Lines* const all = [] {
    auto* const made = new Lines;
    core::set_log_sink([made](LogLevel level, std::string_view text) { made->add(level, text); });
    return made;
  }();
  return *all;
}

class EndLog : public FaultTest, public ::testing::WithParamInterface<FabricKind> {
 protected:
  EndLog() {
    lines().clear();
    core::set_log_level(LogLevel::kDebug);
    DeviceOptions options = quick_options();
    options.fabrics = {GetParam()};
    device_ = open_device(options);
    child_ = std::make_unique<ChildProcess>(
        "named", std::vector<std::string>{device_.endpoint().to_string()});
    channel_ = device_.accept(kPatience).value();
    child_->wait_for("connected");
  }

  void expect_one_debug_line_after(PeerState end) {
    ASSERT_TRUE(eventually([&] { return channel_.peer_state() == end; }));
    // Longer than a silence takes to be warned of.
    std::this_thread::sleep_for(2 * kDetection);
    const std::vector<std::string> said = lines().with(" is ");
    ASSERT_EQ(said.size(), 1u) << ::testing::PrintToString(said);
    EXPECT_EQ(said[0].rfind("debug: " + channel_.peer_name() + " is ", 0), 0u) << said[0];
  }

  void TearDown() override {
    core::set_log_level(LogLevel::kWarning);
    channel_ = Channel();
    child_.reset();
    (void)device_.close(kPatience);
    device_ = Device();
    FaultTest::TearDown();
  }

  Device device_;
  std::unique_ptr<ChildProcess> child_;
  Channel channel_;
};

TEST_P(EndLog, NamesThePeerBesideItsEndpoint) {
  EXPECT_EQ(channel_.peer().name, kName);
  EXPECT_EQ(channel_.peer_name(),
            std::string(kName) + " (" + channel_.peer().endpoint.to_string() + ")");
}

TEST_P(EndLog, OfAKilledPeerIsOneDebugLine) {
  child_->kill();
  expect_one_debug_line_after(PeerState::kDead);
}

TEST_P(EndLog, OfAPeerThatExitsWithoutGoodbyeIsOneDebugLine) {
  child_->tell("exit");
  expect_one_debug_line_after(PeerState::kDead);
}

TEST_P(EndLog, OfAPeerThatClosesIsOneDebugLine) {
  child_->tell("close");
  expect_one_debug_line_after(PeerState::kClosed);
}

TEST_P(EndLog, OfAStoppedPeerIsAWarningThatNamesIt) {
  child_->stop();
  ASSERT_TRUE(eventually([] { return !lines().with(" is silent").empty(); }));
  std::this_thread::sleep_for(2 * kDetection);
  std::vector<std::string> said = lines().with(" is silent");
  ASSERT_EQ(said.size(), 1u) << "once for each silence: " << ::testing::PrintToString(said);
  EXPECT_EQ(said[0].rfind("warning: " + channel_.peer_name(), 0), 0u) << said[0];
  child_->resume();
  ASSERT_TRUE(eventually([] { return !lines().with(" is alive").empty(); }));
  said = lines().with(" is alive");
  EXPECT_EQ(said[0].rfind("warning: " + channel_.peer_name(), 0), 0u)
      << "who was warned learns that it is over: " << said[0];
}

TEST_P(EndLog, OfAPeerKilledInAWarnedSilenceIsAWarning) {
  child_->stop();
  ASSERT_TRUE(eventually([] { return !lines().with(" is silent").empty(); }));
  child_->kill();
  ASSERT_TRUE(eventually([] { return !lines().with(" is dead").empty(); }));
  EXPECT_EQ(lines().with(" is dead")[0].rfind("warning: " + channel_.peer_name(), 0), 0u);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, EndLog, ::testing::Values(FabricKind::kShm, FabricKind::kTcp),
                         [](const auto& fabric) { return std::string(to_string(fabric.param)); });

}  // namespace
}  // namespace farwrite::fault
