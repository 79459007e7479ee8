// What a client's calls cost in round trips.
#include <cstdint>
#include <functional>
#include <vector>

#include "box/client_state.h"
#include "conformance/box_fixture.h"

namespace farwrite::box {
namespace {

using BoxRoundTrips = BoxConformance;

TEST_P(BoxRoundTrips, AReadAfterAChangeOfItsClientFindsTheBytesAtOnce) {
  const auto state = ClientState::connect(server().endpoint(), {.device = this->options()}).value();
  const Segment segment = create(Client(state), vector_spec("weights", 100));
  const auto reads = [&] { return state->channel().stats().reads; };
  for (int i = 1; i <= 10; ++i) {
    const auto value = static_cast<float>(i);
    write(segment, std::vector<float>(100, value));  // into the other buffer
    const std::uint64_t before = reads();
    EXPECT_TRUE(all_are(value, read(segment)));
    // The version, the bytes, and the version again; none where the memory is mapped.
    EXPECT_LE(reads() - before, 3U) << i;
  }
  ASSERT_OK(state->close(kHang));
}

TEST_P(BoxRoundTrips, AThreadThatWaitsTakesItsAnswersItself) {
  const auto state = ClientState::connect(server().endpoint(), {.device = this->options()}).value();
  const Client client(state);
  const Segment segment = create(client, vector_spec("weights", 100));
  // At first a poller may be at a lane.
  const auto drives = [&](const std::function<void()>& call) {
    return eventually([&] {
      const std::uint64_t before = state->drives();
      call();
      return state->drives() > before;
    });
  };
  const Change fill = change_of(Operation::kFill, 1.0);
  EXPECT_TRUE(drives([&] { EXPECT_OK(segment.post(fill, kHang).done.wait({})); }));
  EXPECT_TRUE(drives([&] { EXPECT_OK(segment.lease(kHang)); }));
  EXPECT_TRUE(drives([&] { EXPECT_OK(client.list()); }));
  const std::uint64_t before = state->drives();
  apply(segment, fill);  // its Update is the program's
  EXPECT_EQ(state->drives(), before);
  ASSERT_OK(state->close(kHang));
}

FARWRITE_EVERY_FABRIC_INSIDE(BoxRoundTrips);

}  // namespace
}  // namespace farwrite::box
