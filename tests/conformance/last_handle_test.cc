// A device closes with the last handle of it, whatever its peers still hold of its memory.
#include "conformance/stream_fixture.h"
#include "conformance/tensor_fixture.h"

namespace farwrite {
namespace {

constexpr std::size_t kLarge = 100'000;

// Whether the device that listened there has closed: its port is free.
bool has_closed(DeviceOptions options, const Endpoint& endpoint) {
  options.listen = endpoint;
  return is_ok(Device::open(options));
}

using LastHandleOfTensors = Tensors;

TEST_P(LastHandleOfTensors, ClosesTheDeviceWhileThePeerHoldsTensors) {
  Edge edge = open_edge("offered", ReceiverOptions());
  const TensorSpec spec = bytes_spec({kLarge});
  ASSERT_OK(send(edge.sender, spec, 1));  // from memory that is copied
  ASSERT_OK(send(edge.sender, spec, 2));
  const ReceivedTensor held = take(edge.receiver, spec, 1);
  const Endpoint endpoint = near_device_.endpoint();
  edge.sender = TensorSender();
  near_ = Channel();
  near_device_ = Device();
  EXPECT_TRUE(eventually([&] { return has_closed(options(), endpoint); }));
  EXPECT_TRUE(holds(held.data(), kLarge, 1));
}

TEST_P(LastHandleOfTensors, IsThatOfASenderIfItIsDroppedLast) {
  Edge edge = open_edge("static", static_edge(bytes_spec({8})));
  const Endpoint endpoint = near_device_.endpoint();
  near_ = Channel();
  near_device_ = Device();
  ASSERT_OK(send(edge.sender, bytes_spec({8}), 1));
  (void)take(edge.receiver, bytes_spec({8}), 1);
  edge.sender = TensorSender();
  EXPECT_TRUE(eventually([&] { return has_closed(options(), endpoint); }));
}

FARWRITE_EVERY_FABRIC(LastHandleOfTensors);

class LastHandleOfStreams : public stream::Streaming {
 protected:
  // The fixture's are closed by the test.
  void TearDown() override {}
};

TEST_P(LastHandleOfStreams, ClosesTheDevicesWhileSlicesAreHeld) {
  create(small_sizes());
  const std::vector<std::byte> bytes = make_bytes(30'000, 1);
  std::vector<std::byte> all;
  std::vector<stream::Slice> kept;
  auto written = write(near_end_, {stream::heap_slice(bytes)});
  ASSERT_OK(read_to(far_end_, bytes.size(), all, &kept));
  ASSERT_OK(outcome(std::move(written)));
  const Endpoint near = near_device_.endpoint(), far = far_device_.endpoint();
  near_end_ = far_end_ = stream::Stream();
  near_streams_ = far_streams_ = stream::Streams();
  near_ = far_ = Channel();
  near_device_ = Device();
  EXPECT_TRUE(eventually([&] { return has_closed(options(), near); }));
  far_device_ = Device();
  EXPECT_TRUE(eventually([&] { return has_closed(options(), far); }));
  std::size_t compared = 0;
  for (const stream::Slice& slice : kept) {
    EXPECT_EQ(std::memcmp(slice.bytes.data, bytes.data() + compared, slice.bytes.size), 0);
    compared += slice.bytes.size;
  }
  EXPECT_EQ(compared, bytes.size());
}

FARWRITE_EVERY_FABRIC(LastHandleOfStreams);

}  // namespace
}  // namespace farwrite
