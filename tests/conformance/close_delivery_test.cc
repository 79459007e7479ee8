// A device that closes at once loses nothing that it has sent.
#include <atomic>
#include <cstdint>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{4} << 20;
constexpr std::uint32_t kRounds = 16;
constexpr std::uint32_t kChatter = 1;
constexpr std::uint32_t kDone = 2;

// Notifies the peer until it has closed, so that bytes travel against the data.
class Chatter {
 public:
  explicit Chatter(Channel channel)
      : thread_([channel]() mutable {
          while (channel.notify(kChatter).wait(kHang).ok()) std::this_thread::yield();
        }) {}
  ~Chatter() { thread_.join(); }

 private:
  std::thread thread_;
};

class ClosingAtOnce : public Conformance {
 protected:
  // `sender` writes to `receiver` and closes its device.
  void send_and_close(Device& sending, Channel sender, Channel receiver, std::uint32_t round) {
    auto landing = receiver.allocate(kBytes);
    ASSERT_OK(landing);
    auto target = sender.open(landing->descriptor(), kHang);
    ASSERT_OK(target);
    const std::vector<std::byte> bytes = make_bytes(kBytes, round);
    const Chatter chatter(receiver);
    auto closed = std::async(std::launch::async, [&] {
      const std::uint32_t lane = lanes() - 1;
      EXPECT_OK(wait_until_settled(
          sender.write_with_notify({bytes.data(), bytes.size()}, *target, 0, kDone, lane)));
      EXPECT_OK(sending.close(kHang));
    });
    auto taken = receiver.wait_notification(kHang);
    ASSERT_OK(taken);
    EXPECT_EQ(taken->tag, kDone);
    EXPECT_TRUE(holds(landing->data(), kBytes, round));
    closed.get();
  }
};

TEST_P(ClosingAtOnce, DeliversTheLastNotifiedWrite) {
  for (std::uint32_t round = 1; round <= kRounds && !HasFailure(); ++round) {
    Device near = open(), far = open();
    ChannelPair pair = connect(near, far);
    send_and_close(near, pair.near, pair.far, round);
    EXPECT_OK(far.close(kHang));
  }
}

TEST_P(ClosingAtOnce, DeliversTheLastNotifiedWriteOfTheAcceptingSide) {
  for (std::uint32_t round = 1; round <= kRounds && !HasFailure(); ++round) {
    Device near = open(), far = open();
    ChannelPair pair = connect(near, far);
    send_and_close(far, pair.far, pair.near, round);
    EXPECT_OK(near.close(kHang));
  }
}

FARWRITE_EVERY_FABRIC(ClosingAtOnce);
FARWRITE_ENCRYPTED_TOO(ClosingAtOnce);

}  // namespace
}  // namespace farwrite
