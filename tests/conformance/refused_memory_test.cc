// Memory that the system refuses: an error with the remedy for what asked for it, and nothing else
// ends.
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "conformance/stream_fixture.h"

namespace {

// What is refused: allocations of at least so many bytes, and below twice as many.
std::atomic<std::size_t> refused_from{0};
thread_local std::size_t refused_here_from = 0;  // the same in this thread alone

void* allocate_unless_refused(std::size_t bytes) noexcept {
  for (const std::size_t least : {refused_from.load(), refused_here_from}) {
    if (least > 0 && bytes >= least && bytes < 2 * least) return nullptr;
  }
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* must_allocate(std::size_t bytes) {
  void* const memory = allocate_unless_refused(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return must_allocate(bytes); }
void* operator new[](std::size_t bytes) { return must_allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return allocate_unless_refused(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return allocate_unless_refused(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }

namespace farwrite::stream {
namespace {

using RefusedMemory = Streaming;

void expect_refused(const Status& status, const std::vector<std::string>& parts) {
  EXPECT_CODE(kResourceExhausted, status);
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST_P(RefusedMemory, OfReceivedBytesEndsOneStream) {
  Options options = small_sizes();
  options.held = 0;  // all lent bytes are copied to the heap
  create(options);
  const std::vector<std::byte> bytes = make_bytes(50'000, 1);
  std::vector<Slice> slices = {device_slice(bytes)};
  refused_from = options.chunk;
  auto written = write(near_end_, std::move(slices));
  const Status status = read(far_end_).status();
  refused_from = 0;
  expect_refused(status, {far_.peer_name(), "10000 bytes", "ulimit -v"});
  far_end_ = Stream();
  (void)outcome(std::move(written));
  Stream next = must_open(near_streams_, ++number_);
  far_end_ = must_open(far_streams_, number_);
  EXPECT_OK(outcome(write(next, {device_slice(bytes)})));
  std::vector<std::byte> all;
  EXPECT_OK(read_to(far_end_, bytes.size(), all));
  EXPECT_TRUE(all == bytes);
}

class RefusedMessages : public ConformancePair {
 protected:
  void expect_others_go_on() {
    ChannelPair next = connect(near_device_, far_device_);
    EXPECT_OK(next.near.send(view()).wait(kHang));
    auto notification = next.far.wait_notification(kHang);
    ASSERT_OK(notification);
    EXPECT_TRUE(notification->message == message_);
  }
  ByteView view() const { return {message_.data(), message_.size()}; }
  const std::vector<std::byte> message_ = make_bytes(30'000, 1);
};

TEST_P(RefusedMessages, AtTheReceiverEndTheChannelAlone) {
  refused_from = message_.size();
  (void)near_.send(view());
  const Status status = far_.wait_notification(kHang).status();
  refused_from = 0;
  expect_refused(status, {"a message of the peer", "ulimit -v"});
  expect_others_go_on();
}

TEST_P(RefusedMessages, AtTheSenderAreAnError) {
  Status status;
  refused_here_from = message_.size();
  for (int i = 0; i < 100'000 && status.ok(); ++i) {
    const Completion sent = near_.send(view());
    if (sent.done()) status = sent.wait();
  }
  refused_here_from = 0;
  expect_refused(status, {near_.peer_name(), "ulimit -v"});
  expect_others_go_on();
}

INSTANTIATE_TEST_SUITE_P(, RefusedMemory,
                         ::testing::Values(Variant{FabricKind::kShm, 1, 1},
                                           Variant{FabricKind::kTcp, 1, 1}),
                         variant_name);
FARWRITE_ENCRYPTED_TOO(RefusedMemory);
INSTANTIATE_TEST_SUITE_P(, RefusedMessages,
                         ::testing::Values(Variant{FabricKind::kShm, 1, 1},
                                           Variant{FabricKind::kTcp, 1, 1}),
                         variant_name);
FARWRITE_ENCRYPTED_TOO(RefusedMessages);

}  // namespace
}  // namespace farwrite::stream
