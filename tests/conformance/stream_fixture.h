// Streaming: both ends of a byte stream, and how tests write to them and read from them.
#pragma once

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite::stream {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Memory of the heap that a slice owns.
inline Slice heap_slice(const std::vector<std::byte>& bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(bytes);
  return {.bytes = {owner->data(), owner->size()}, .owner = owner};
}

class Streaming : public ConformancePair {
 protected:
  void SetUp() override {
    ConformancePair::SetUp();
    create({});
  }
  // A stream and a slice may hold what the software adapter's memory must not outlive.
  void TearDown() override {
    near_end_ = far_end_ = Stream();
    near_streams_ = far_streams_ = Streams();
    EXPECT_OK(near_device_.close(kHang));
    EXPECT_OK(far_device_.close(kHang));
  }

  // Replaces the streams, with sizes that make short tests meet every limit.
  void create(const Options& options) { create(options, options); }
  void create(const Options& near_options, const Options& far_options) {
    near_end_ = far_end_ = Stream();
    near_streams_ = far_streams_ = Streams();  // a channel has them once
    auto near = Streams::create(near_device_, near_, near_options);
    auto far = Streams::create(far_device_, far_, far_options);
    ASSERT_OK(near);
    ASSERT_OK(far);
    near_streams_ = *std::move(near);
    far_streams_ = *std::move(far);
    ++number_;  // the peer may still receive records of the stream before
    near_end_ = must_open(near_streams_, number_);
    far_end_ = must_open(far_streams_, number_);
  }
  static Options small_sizes() {
    Options options;
    options.lend_from = 2048;
    options.chunk = 10'000;
    options.window = 100'000;
    options.write_bound = 1000;
    options.held = 50'000;
    return options;
  }
  static Stream must_open(Streams& streams, std::uint64_t number) {
    auto stream = streams.open(number);
    EXPECT_OK(stream);
    return stream.ok() ? *std::move(stream) : Stream();
  }

  // Memory of the near device; the slice's owner frees it and counts.
  Slice device_slice(const std::vector<std::byte>& bytes) {
    std::byte* const memory = near_device_.allocate_raw(bytes.size());
    EXPECT_NE(memory, nullptr);
    std::memcpy(memory, bytes.data(), bytes.size());
    return {.bytes = {memory, bytes.size()},
            .owner = std::shared_ptr<const void>(
                memory, [this, device = near_device_](const void* data) mutable {
                  device.free_raw(static_cast<std::byte*>(const_cast<void*>(data)));
                  ++freed_;
                })};
  }

  static std::future<Status> write(Stream& stream, std::vector<Slice> slices) {
    auto done = std::make_shared<std::promise<Status>>();
    stream.write(std::move(slices), [done](const Status& status) { done->set_value(status); });
    return done->get_future();
  }
  static std::future<Status> finish(Stream& stream) {
    auto done = std::make_shared<std::promise<Status>>();
    stream.finish([done](const Status& status) { done->set_value(status); });
    return done->get_future();
  }
  static Result<std::vector<Slice>> read(Stream& stream) {
    auto come = std::make_shared<std::promise<Result<std::vector<Slice>>>>();
    stream.read([come](Result<std::vector<Slice>> slices) { come->set_value(std::move(slices)); });
    auto slices = come->get_future();
    if (slices.wait_for(kHang) != std::future_status::ready) {
      return Status(StatusCode::kDeadlineExceeded, "the test's read got nothing");
    }
    return slices.get();
  }
  // Appends what comes until there are `bytes` of it, or the end. Keeps the slices if asked to.
  static Status read_to(Stream& stream, std::size_t bytes, std::vector<std::byte>& all,
                        std::vector<Slice>* kept = nullptr) {
    while (all.size() < bytes) {
      auto slices = read(stream);
      if (!slices.ok()) return slices.status();
      if (slices->empty()) break;
      for (Slice& slice : *slices) {
        all.insert(all.end(), slice.bytes.data, slice.bytes.data + slice.bytes.size);
        if (kept != nullptr) kept->push_back(std::move(slice));
      }
    }
    return Status();
  }
  static bool ready(std::future<Status>& done, std::chrono::milliseconds wait) {
    return done.wait_for(wait) == std::future_status::ready;
  }
  static Status outcome(std::future<Status> done) {
    if (!ready(done, std::chrono::milliseconds(kHang))) {
      return Status(StatusCode::kDeadlineExceeded, "the test's write did not end");
    }
    return done.get();
  }
  bool maps() const { return near_.maps_peer_memory(); }

  Streams near_streams_, far_streams_;
  Stream near_end_, far_end_;
  std::uint64_t number_ = 1000;
  std::atomic<int> freed_{0};
};

}  // namespace farwrite::stream
