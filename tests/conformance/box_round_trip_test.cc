// What a client's calls cost in round trips.
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

FARWRITE_EVERY_FABRIC_INSIDE(BoxRoundTrips);

}  // namespace
}  // namespace farwrite::box
