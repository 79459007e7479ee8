// A box's server that closes gives its memory back, whatever handles the program keeps.
#include <algorithm>
#include <string>
#include <vector>

#include "conformance/box_fixture.h"

namespace farwrite::box {
namespace {

constexpr std::uint64_t kDraftElements = 1000;

class BoxClose : public BoxConformance {
 protected:
  // Whether the kernel has all send memory of the server.
  bool gave_memory_back() {
    const std::string metrics = server().metrics_text();
    const std::size_t name = metrics.find("farwrite_memory_reserved_bytes{");
    const std::size_t send = metrics.find("direction=\"send\"} ", name);
    EXPECT_NE(send, std::string::npos);
    return metrics.compare(send, 20, "direction=\"send\"} 0\n") == 0;
  }
};

TEST_P(BoxClose, GivesMemoryBackThoughTheProgramKeepsEveryHandle) {
  ServerOptions options;
  options.pool = std::uint64_t{8} << 20;
  serve(options);
  const Client client = connect();
  const Segment segment = create(client, vector_spec("weights", kDraftElements));
  write(segment, std::vector<float>(kDraftElements, 7.0F));
  EXPECT_TRUE(all_are(7.0F, read(segment)));
  const Result<LeasedSegment> lease = segment.lease(kHang);
  ASSERT_OK(lease);
  EXPECT_FALSE(gave_memory_back());
  ASSERT_OK(server().close());
  EXPECT_TRUE(gave_memory_back());
  EXPECT_EQ(0U, server().stats().segments);
  EXPECT_EQ(0U, server().stats().segment_bytes);
  const auto* const values = reinterpret_cast<const float*>(lease.value().bytes().data);
  EXPECT_TRUE(
      std::all_of(values, values + kDraftElements, [](float value) { return value == 7.0F; }));
}

TEST_P(BoxClose, KeepsTheBytesOfADraftUntilThatEnds) {
  const Client client = connect();
  const Segment segment = create(client, vector_spec("weights", kDraftElements));
  Result<Draft> draft = server().draft(segment.info().key);
  ASSERT_OK(draft);
  ASSERT_OK(server().close());
  EXPECT_FALSE(gave_memory_back());
  std::fill_n(reinterpret_cast<float*>(draft->bytes.data), kDraftElements, 5.0F);
  server().drop(draft.value());
  EXPECT_TRUE(gave_memory_back());
}

TEST_P(BoxClose, KeepsTheBytesOfADraftOfASegmentThatIsGone) {
  Client client = connect();
  Segment segment = create(client, vector_spec("weights", kDraftElements));
  const std::uint64_t key = segment.info().key;
  Result<Draft> draft = server().draft(key);
  ASSERT_OK(draft);
  ASSERT_OK(segment.free());
  ASSERT_OK(client.close());
  ASSERT_TRUE(eventually([&] { return server().stats().clients == 0; }));
  // Of the same memory, if that was given back.
  const Segment other = create(connect(), vector_spec("other", kDraftElements));
  std::fill_n(reinterpret_cast<float*>(draft->bytes.data), kDraftElements, 5.0F);
  EXPECT_TRUE(all_are(0.0F, read(other)));
  EXPECT_CODE(kNotFound, server().commit(draft.value()).status());
}

FARWRITE_EVERY_FABRIC(BoxClose);

}  // namespace
}  // namespace farwrite::box
