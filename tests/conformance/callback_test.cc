// Callbacks that change handlers and close channels: no wait is without a deadline, and a close
// that could not finish says so and is finished later.
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

constexpr std::chrono::milliseconds kShort{100};

// Two channels of one device, whose lanes two pollers serve. The near ends have the handlers.
class Callbacks : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    DeviceOptions two_pollers = options();
    two_pollers.pollers = 2;
    near_device_ = open(two_pollers);
    far_device_ = open(two_pollers);
    a_ = connect(near_device_, far_device_);
    b_ = connect(near_device_, far_device_);
    ASSERT_TRUE(a_.near.valid() && b_.near.valid());
  }
  // Calls the handler on every poller that serves the channel.
  void notify_on_every_lane(Channel& channel) const {
    for (std::uint32_t lane = 0; lane < lanes(); ++lane) (void)channel.notify(1, lane);
  }

  Device near_device_, far_device_;
  ChannelPair a_, b_;
};

// Runs `body` once, and stays in the handler until the test lets go.
class Blocker {
 public:
  explicit Blocker(std::function<void()> body = [] {}) : body_(std::move(body)) {}
  ~Blocker() { let_go(); }
  std::function<void(Notification)> handler() {
    return [this](const Notification&) {
      if (entered_.exchange(true)) return;
      body_();
      inside_ = true;
      EXPECT_TRUE(eventually([this] { return let_go_.load(); }));
      left_ = true;
    };
  }
  bool wait_until_inside() const {
    return eventually([this] { return inside_.load(); });
  }
  void let_go() { let_go_ = true; }
  bool left() const { return left_; }

 private:
  const std::function<void()> body_;
  std::atomic<bool> entered_{false}, inside_{false}, let_go_{false}, left_{false};
};

TEST_P(Callbacks, MayNotChangeTheirOwnHandlerAfterTheyHaveChangedAnother) {
  std::atomic<bool> over{false};
  Status other, own;
  ASSERT_OK(a_.near.on_notification([&](const Notification&) {
    if (over) return;
    other = b_.near.on_notification([](const Notification&) {});
    own = a_.near.on_notification(nullptr);
    over = true;
  }));
  ASSERT_OK(a_.far.notify(1).wait(kHang));
  ASSERT_TRUE(eventually([&] { return over.load(); }));
  EXPECT_OK(other);
  EXPECT_CODE(kFailedPrecondition, own);
  EXPECT_OK(a_.near.on_notification(nullptr));
}

TEST_P(Callbacks, ThatWaitForTheirOwnChannelAreToldSo) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  const MemoryRegion outbox = far_device_.allocate(kBytes).value();
  const MemoryRegion inbox = a_.far.allocate(kBytes).value();
  const RemoteRegion readable = a_.near.open(outbox.descriptor()).value();
  const RemoteRegion writable = a_.near.open(inbox.descriptor()).value();
  std::vector<std::byte> read(kBytes), written(kBytes);
  std::vector<Completion> operations;
  std::vector<Status> waits;
  std::atomic<bool> handled{false}, over{false};
  const auto wait_for = [&](const Completion& operation) {
    operations.push_back(operation);
    waits.push_back(operation.wait());
  };
  const auto wait_for_each = [&] {
    wait_for(a_.near.read({read.data(), read.size()}, readable));
    wait_for(a_.near.write({written.data(), written.size()}, writable));
    wait_for(a_.near.flush());
  };
  ASSERT_OK(a_.near.on_notification([&](const Notification&) {
    wait_for_each();
    a_.near.flush().on_done([&](const Status&) {
      wait_for_each();
      over = true;
    });
    handled = true;
  }));
  ASSERT_OK(a_.far.notify(1).wait(kHang));
  ASSERT_TRUE(eventually([&] { return over && handled; }));
  // Where the call itself moves the bytes, there is nothing to wait for.
  for (const Status& waited : waits) {
    if (!waited.ok()) {
      EXPECT_CODE(kFailedPrecondition, waited);
    }
  }
  for (const Completion& operation : operations) EXPECT_OK(operation.wait(kHang));
}

TEST_P(Callbacks, ThatCloseEachOthersChannelEndAtTheirDeadlines) {
  std::atomic<int> inside{0}, over{0};
  Status from_a, from_b;
  std::atomic<bool> a_began{false}, b_began{false};
  const auto close_when_both_are_inside = [&](Channel& other, Status& result,
                                              std::atomic<bool>& began) {
    return [&](const Notification&) {
      if (began.exchange(true)) return;
      ++inside;
      EXPECT_TRUE(eventually([&] { return inside == 2; }));
      result = other.close(kShort);
      ++over;
    };
  };
  ASSERT_OK(a_.near.on_notification(close_when_both_are_inside(b_.near, from_a, a_began)));
  ASSERT_OK(b_.near.on_notification(close_when_both_are_inside(a_.near, from_b, b_began)));
  ASSERT_OK(a_.far.notify(1).wait(kHang));
  ASSERT_TRUE(eventually([&] { return inside == 1; }));
  notify_on_every_lane(b_.far);  // one of them is served by the poller that is free
  ASSERT_TRUE(eventually([&] { return over == 2; }));
  const Status& late = from_a.ok() ? from_b : from_a;
  EXPECT_CODE(kDeadlineExceeded, late);
  EXPECT_NE(late.message().find("call close() again"), std::string::npos) << late.message();
  EXPECT_OK(a_.near.close(kHang));
  EXPECT_OK(b_.near.close(kHang));
  EXPECT_OK(near_device_.close(kHang));
}

TEST_P(Callbacks, ThatChangeEachOthersHandlerEndAtTheirDeadlines) {
  std::atomic<int> inside{0}, over{0};
  Status from_a, from_b;
  std::atomic<bool> a_began{false}, b_began{false};
  const auto change_when_both_are_inside = [&](Channel& other, Status& result,
                                               std::atomic<bool>& began) {
    return [&](const Notification&) {
      if (began.exchange(true)) return;
      ++inside;
      EXPECT_TRUE(eventually([&] { return inside == 2; }));
      result = other.on_notification(nullptr, kShort);
      ++over;
    };
  };
  ASSERT_OK(a_.near.on_notification(change_when_both_are_inside(b_.near, from_a, a_began)));
  ASSERT_OK(b_.near.on_notification(change_when_both_are_inside(a_.near, from_b, b_began)));
  ASSERT_OK(a_.far.notify(1).wait(kHang));
  ASSERT_TRUE(eventually([&] { return inside == 1; }));
  notify_on_every_lane(b_.far);
  ASSERT_TRUE(eventually([&] { return over == 2; }));
  EXPECT_CODE(kDeadlineExceeded, from_a.ok() ? from_b : from_a);
  EXPECT_OK(near_device_.close(kHang));
}

TEST_P(Callbacks, ThatRunWhenAChannelClosesLetItCloseByItselfLater) {
  Blocker blocker;
  ASSERT_OK(a_.near.on_notification(blocker.handler()));
  ASSERT_OK(a_.far.notify(1).wait(kHang));
  ASSERT_TRUE(blocker.wait_until_inside());
  EXPECT_CODE(kDeadlineExceeded, a_.near.close(kShort));
  EXPECT_CODE(kCancelled, a_.near.notify(1).wait(kHang));
  EXPECT_NE(a_.far.peer_state(), PeerState::kClosed) << "it is not closed yet";
  EXPECT_OK(b_.near.close(kHang)) << "another channel is not delayed";
  blocker.let_go();
  EXPECT_TRUE(eventually([&] { return a_.far.peer_state() == PeerState::kClosed; }));
  EXPECT_OK(a_.near.close(kHang));
}

TEST_P(Callbacks, ThatRunWhenTheirDeviceClosesLetItBeClosedAgain) {
  Blocker blocker;
  ASSERT_OK(a_.near.on_notification(blocker.handler()));
  ASSERT_OK(a_.far.notify(1).wait(kHang));
  ASSERT_TRUE(blocker.wait_until_inside());
  const Status late = near_device_.close(kShort);
  EXPECT_CODE(kDeadlineExceeded, late);
  EXPECT_NE(late.message().find("call close() again"), std::string::npos) << late.message();
  EXPECT_FALSE(near_device_.allocate(64).ok());
  EXPECT_FALSE(blocker.left());
  blocker.let_go();
  EXPECT_OK(near_device_.close(kHang));
  EXPECT_TRUE(blocker.left()) << "closed, it says, while a handler runs";
  EXPECT_TRUE(eventually([&] { return a_.far.peer_state() == PeerState::kClosed; }));
}

TEST_P(Callbacks, ThatACloseRunsAreRefusedAnother) {
  for (const bool of_device : {false, true}) {
    Channel& channel = of_device ? b_.near : a_.near;
    const std::vector<std::byte> message(400);
    const auto send = [&] { return channel.send({message.data(), message.size()}); };
    Completion waiting = send();
    for (int sent = 0; waiting.wait(std::chrono::milliseconds(20)).ok(); ++sent) {
      if (sent == 5000) return;  // a simulated lane takes any number, and on_done() never waits
      waiting = send();
    }
    std::atomic<int> refused{0};
    waiting.on_done([&](const Status&) {
      for (const Status& status : {channel.close(kHang), near_device_.close(kHang)}) {
        EXPECT_CODE(kFailedPrecondition, status);
        refused.fetch_add(1);
      }
    });
    EXPECT_OK(of_device ? near_device_.close(kHang) : channel.close(kHang));
    EXPECT_EQ(refused, 2);
  }
}

TEST_P(Callbacks, OfTheEndAreOverWhenTheirChannelIsClosed) {
  std::atomic<bool> inside{false}, let_go{false}, left{false};
  ASSERT_OK(a_.near.on_end([&](bool, const Status&) {
    inside = true;
    EXPECT_TRUE(eventually([&] { return let_go.load(); }));
    left = true;
  }));
  EXPECT_OK(a_.far.close(kHang));
  ASSERT_TRUE(eventually([&] { return inside.load(); }));
  EXPECT_CODE(kDeadlineExceeded, a_.near.close(kShort));
  let_go = true;
  EXPECT_OK(a_.near.close(kHang));
  EXPECT_TRUE(left);
}

TEST_P(Callbacks, OutliveTheLastHandleOfTheirChannel) {
  Blocker blocker([this] { a_.near = Channel(); });
  ASSERT_OK(a_.near.on_notification(blocker.handler()));
  ASSERT_OK(a_.far.notify(1).wait(kHang));
  ASSERT_TRUE(blocker.wait_until_inside());
  blocker.let_go();
  EXPECT_TRUE(eventually([&] { return a_.far.peer_state() == PeerState::kClosed; }));
}

TEST_P(Callbacks, OfChannelsWithOneLaneRunOnEveryPoller) {
  DeviceOptions narrow = options();
  narrow.pollers = 2;
  narrow.lanes = 1;
  Device near_device = open(narrow), far_device = open(narrow);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int> calls{0};
  std::vector<ChannelPair> channels;
  constexpr int kChannels = 4;
  for (int i = 0; i < kChannels; ++i) {
    channels.push_back(connect(near_device, far_device));
    ASSERT_OK(channels.back().near.on_notification([&](const Notification&) {
      const std::lock_guard<std::mutex> lock(mutex);
      threads.insert(std::this_thread::get_id());
      ++calls;
    }));
  }
  for (ChannelPair& channel : channels) ASSERT_OK(channel.far.notify(1).wait(kHang));
  ASSERT_TRUE(eventually([&] { return calls == kChannels; }));
  const std::lock_guard<std::mutex> lock(mutex);
  EXPECT_EQ(threads.size(), 2U);
}

FARWRITE_EVERY_FABRIC(Callbacks);

}  // namespace
}  // namespace farwrite
