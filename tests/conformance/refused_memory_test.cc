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

void* allocate_unless_refused(std::size_t bytes) noexcept {
  const std::size_t least = refused_from;
  if (least > 0 && bytes >= least && bytes < 2 * least) return nullptr;
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

INSTANTIATE_TEST_SUITE_P(, RefusedMemory,
                         ::testing::Values(Variant{FabricKind::kShm, 1, 1},
                                           Variant{FabricKind::kTcp, 1, 1}),
                         variant_name);
FARWRITE_ENCRYPTED_TOO(RefusedMemory);

}  // namespace
}  // namespace farwrite::stream
