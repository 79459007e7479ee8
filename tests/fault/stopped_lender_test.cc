// A process is stopped after it lent memory that its peer has never mapped: the peer's first view
// waits for it, no longer than the caller says, and no longer than the channel is open.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "c_handles.h"
#include "farwrite/c_api.h"
#include "fault/byte_stream.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

constexpr std::chrono::milliseconds kShort(100);
constexpr std::uint64_t kShortNs = std::chrono::nanoseconds(kShort).count();
constexpr std::uint64_t kPatienceNs = std::chrono::nanoseconds(kPatience).count();

// Lends a page when it is told to, of memory that no peer has seen, or writes it into a stream.
int lends_when_told(const Arguments& arguments) {
  Device device = Device::open(quick_options()).value();
  say("endpoint " + device.endpoint().to_string());
  Channel channel = device.accept(kPatience).value();
  std::unique_ptr<ByteStream> stream;
  if (arguments.at(0) == "stream") stream = std::make_unique<ByteStream>(device, channel);
  MemoryRegion region;
  while (const auto line = hear()) {
    if (*line != "lend") continue;
    if (stream != nullptr) {
      FARWRITE_REQUIRE_OK(stream->write_blocks(1));
    } else {
      region = device.allocate(4096).value();
      FARWRITE_REQUIRE_OK(channel.lend({}, {region.data(), 4096}, [] {}).wait(kPatience));
    }
    say("lent");
  }
  return 0;
}
const RoleRegistration kLendsWhenTold("lends when told", lends_when_told);

// Begins a view without a limit, and closes the channel beneath it.
int closes_beneath_a_view(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  say("connected");
  const RemoteRegion lent = peer.channel.wait_notification(kPatience).value().lent;
  auto view =
      std::async(std::launch::async, [&] { return peer.channel.alias(lent, 0, 8).status(); });
  FARWRITE_REQUIRE(view.wait_for(kShort) == std::future_status::timeout);
  say("waits");
  (void)peer.channel.close(kShort);
  say("ended " + std::string(to_string(view.get().code())));
  hear_the_end();
  return 0;
}
const RoleRegistration kClosesBeneathAView("closes beneath a view", closes_beneath_a_view);

// Drops its streams while lent bytes of one wait for their first view.
int drops_its_streams(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  const std::size_t before = Holdings::now().threads;
  auto stream = std::make_unique<ByteStream>(peer.device, peer.channel);
  FARWRITE_REQUIRE(Holdings::now().threads > before);  // the one that waits
  say("connected");
  FARWRITE_REQUIRE(eventually([&] { return peer.channel.stats().leases_held > 0; }));
  say("waits");
  peer.channel = {};
  stream.reset();
  FARWRITE_REQUIRE(eventually([&] { return Holdings::now().threads == before; }));
  say("ended");
  hear_the_end();
  return 0;
}
const RoleRegistration kDropsItsStreams("drops its streams", drops_its_streams);

// Maps a view of the C ABI, for a moment, and later for longer.
int maps_within_a_limit(const Arguments& arguments) {
  fw_device_options options = {};
  options.struct_size = sizeof(options);
  fw_device* device = nullptr;
  fw_channel* channel = nullptr;
  std::promise<fw_remote*> lent;
  FARWRITE_REQUIRE(fw_device_open(&options, &device) == nullptr);
  FARWRITE_REQUIRE(fw_device_connect(device, arguments.at(0).c_str(), kPatienceNs, &channel) ==
                   nullptr);
  FARWRITE_REQUIRE(fw_channel_serve(
                       channel,
                       [](void* context, const fw_notification* notification) {
                         static_cast<std::promise<fw_remote*>*>(context)->set_value(
                             notification->lent);
                       },
                       nullptr, &lent) == nullptr);
  say("connected");
  fw_remote* const view = lent.get_future().get();
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  fw_status* const late = fw_remote_map(view, kShortNs, &data, &bytes);
  say("first " + std::string(fw_status_code_name(late)));
  fw_status_free(late);
  FARWRITE_REQUIRE(hear() == "again");
  FARWRITE_REQUIRE(fw_remote_map(view, kPatienceNs, &data, &bytes) == nullptr);
  say("mapped " + std::to_string(bytes));
  fw_remote_release(view);
  hear_the_end();
  FARWRITE_REQUIRE(finish(channel, kPatienceNs) == nullptr);
  FARWRITE_REQUIRE(finish(device, kPatienceNs) == nullptr);
  return 0;
}
const RoleRegistration kMapsWithinALimit("maps within a limit", maps_within_a_limit);

class StoppedLender : public FaultTest {
 protected:
  // Starts both, so that the lender is stopped before it is asked for its memory.
  void start(const std::string& lends, const std::string& role) {
    lender_.emplace("lends when told", Arguments{lends});
    looker_.emplace(role, Arguments{lender_->wait_for("endpoint")});
    looker_->wait_for("connected");
    looker_->stop();
    lender_->tell("lend");
    lender_->wait_for("lent");
    lender_->stop();
    looker_->resume();
  }
  void TearDown() override {
    lender_.reset();
    looker_.reset();
    FaultTest::TearDown();
  }
  std::optional<ChildProcess> lender_, looker_;
};

TEST_F(StoppedLender, ACloseEndsAViewThatWaits) {
  start("memory", "closes beneath a view");
  EXPECT_EQ(looker_->wait_for("ended"), "cancelled");
  EXPECT_EQ(looker_->finish(), 0);
}

TEST_F(StoppedLender, StreamsThatAreDroppedEndTheirWaits) {
  start("stream", "drops its streams");
  looker_->wait_for("waits");
  looker_->wait_for("ended");
  EXPECT_EQ(looker_->finish(), 0);
}

TEST_F(StoppedLender, AViewOfTheCAbiWaitsNoLongerThanItsLimitAndLaterGoesOn) {
  start("memory", "maps within a limit");
  EXPECT_EQ(looker_->wait_for("first"), "kDeadlineExceeded");
  lender_->resume();
  looker_->tell("again");
  EXPECT_EQ(looker_->wait_for("mapped"), "4096");
  EXPECT_EQ(looker_->finish(), 0);
}

}  // namespace
}  // namespace farwrite::fault
