// Byte streams by the C ABI, on a fabric that maps and on those that do not.
#include <poll.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "unit/c_api_on_fabric.h"

namespace {

using namespace farwrite::c_api_test;

// What the callbacks of a stream have seen.
struct StreamLog {
  std::mutex mutex;
  std::string bytes;
  std::vector<fw_lease*> leases;
  std::string read_error, done_error;
  std::atomic<int> reads{0}, ends{0}, done{0}, released{0};

  static void on_read(void* context, const fw_status* status, const fw_slice* slices,
                      std::uint64_t count) {
    auto& self = *static_cast<StreamLog*>(context);
    const std::lock_guard<std::mutex> lock(self.mutex);
    for (std::uint64_t i = 0; i < count; ++i) {
      self.bytes.append(static_cast<const char*>(slices[i].data), slices[i].bytes);
      self.leases.push_back(slices[i].lease);
    }
    self.read_error = status == nullptr ? "" : fw_status_code_name(status);
    if (status == nullptr && count == 0) ++self.ends;
    ++self.reads;
  }
  static void on_done(void* context, const fw_status* status) {
    auto& self = *static_cast<StreamLog*>(context);
    const std::lock_guard<std::mutex> lock(self.mutex);
    if (status != nullptr) self.done_error = fw_status_code_name(status);
    ++self.done;
  }
  // The log is the owner of what it writes.
  static void on_release(void* owner) { ++static_cast<StreamLog*>(owner)->released; }

  std::string text() {
    const std::lock_guard<std::mutex> lock(mutex);
    return bytes;
  }
  std::string error_of_read() {
    const std::lock_guard<std::mutex> lock(mutex);
    return read_error;
  }
  std::string error_of_done() {
    const std::lock_guard<std::mutex> lock(mutex);
    return done_error;
  }
  void release_leases() {
    std::vector<fw_lease*> all;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      all.swap(leases);
    }
    for (fw_lease* lease : all) fw_lease_release(lease);
  }
};

// Bytes with a lease whose end `log` counts.
fw_slice leased(const void* data, std::uint64_t bytes, StreamLog& log) {
  fw_slice slice = {data, bytes, nullptr};
  EXPECT_EQ(code(fw_lease_make(StreamLog::on_release, &log, &slice.lease)), "kOk");
  return slice;
}

class CAbiStream : public CAbiOnFabric {
 protected:
  void TearDown() override {
    for (StreamLog* log : {&wrote_, &read_}) log->release_leases();
    for (fw_stream* stream : {near_stream_, far_stream_}) fw_stream_release(stream);
    for (fw_streams* streams : {near_streams_, far_streams_}) fw_streams_release(streams);
    CAbiOnFabric::TearDown();
  }
  // Stream 1 between near and far.
  void open(const fw_stream_options* near_options = nullptr) {
    ASSERT_EQ(code(fw_streams_create(near_.device, near_.channel, near_options, &near_streams_)),
              "kOk");
    ASSERT_EQ(code(fw_streams_create(far_.device, far_.channel, nullptr, &far_streams_)), "kOk");
    ASSERT_EQ(code(fw_streams_open(near_streams_, 1, &near_stream_)), "kOk");
    ASSERT_EQ(code(fw_streams_open(far_streams_, 1, &far_stream_)), "kOk");
  }
  // Bytes of near's, each text with a lease.
  std::string write(const std::vector<std::string>& texts) {
    std::vector<fw_slice> slices;
    for (const std::string& text : texts) {
      slices.push_back(leased(text.data(), text.size(), wrote_));
    }
    return code(
        fw_stream_write(near_stream_, slices.data(), slices.size(), StreamLog::on_done, &wrote_));
  }
  // Reads at far until so many bytes are there.
  bool read_up_to(std::size_t size) {
    while (read_.text().size() < size) {
      const int before = read_.reads;
      EXPECT_EQ(code(fw_stream_read(far_stream_, StreamLog::on_read, &read_)), "kOk");
      if (!eventually([&] { return read_.reads > before; })) return false;
      if (read_.error_of_read() != "" || read_.ends > 0) return false;
    }
    return true;
  }

  fw_streams *near_streams_ = nullptr, *far_streams_ = nullptr;
  fw_stream *near_stream_ = nullptr, *far_stream_ = nullptr;
  StreamLog wrote_, read_;
};

TEST_P(CAbiStream, SlicesOfAnySizeComeInOrder) {
  open();
  const std::vector<std::string> texts = {"short", "", std::string(200'000, 'l'), "tail"};
  ASSERT_EQ(write(texts), "kOk");
  const std::string all = "short" + texts[2] + "tail";
  ASSERT_TRUE(read_up_to(all.size())) << read_.error_of_read();
  EXPECT_EQ(read_.text(), all);
  EXPECT_TRUE(eventually([&] { return wrote_.done == 1; }));
  EXPECT_EQ(wrote_.error_of_done(), "");
  read_.release_leases();
  EXPECT_TRUE(eventually([&] { return wrote_.released == 4; }));
  fw_stream_stats stats = {};
  stats.struct_size = sizeof(stats);
  fw_streams_stats(near_streams_, &stats);
  EXPECT_GE(stats.lent_bytes, 200'000u);
  EXPECT_GE(stats.message_bytes, 9u);
}

TEST_P(CAbiStream, ALeaseStaysUntilThePeerHasReleasedItsSlice) {
  open();
  constexpr std::uint64_t kBytes = 100'000;
  void* const memory = fw_device_allocate(near_.device, kBytes);
  std::memset(memory, 'o', kBytes);
  const fw_slice slices[2] = {leased(memory, 50'000, wrote_),
                              leased(static_cast<char*>(memory) + 50'000, 50'000, wrote_)};
  ASSERT_EQ(code(fw_stream_write(near_stream_, slices, 2, StreamLog::on_done, &wrote_)), "kOk");
  ASSERT_TRUE(read_up_to(kBytes));
  EXPECT_TRUE(eventually([&] { return wrote_.done == 1; }));
  if (fw_channel_maps(near_.channel) == 1) {
    EXPECT_EQ(wrote_.released, 0);
  }
  read_.release_leases();
  EXPECT_TRUE(eventually([&] { return wrote_.released == 2; }));
  fw_device_deallocate(near_.device, memory);
}

TEST_P(CAbiStream, AWriteWithoutBytesEndsInTheCall) {
  open();
  const fw_slice empty = leased(nullptr, 0, wrote_);
  EXPECT_EQ(code(fw_stream_write(near_stream_, &empty, 1, StreamLog::on_done, &wrote_)), "kOk");
  EXPECT_EQ(wrote_.released, 1);
  EXPECT_EQ(wrote_.done, 1);
  ASSERT_EQ(code(fw_stream_write(near_stream_, nullptr, 0, StreamLog::on_done, &wrote_)), "kOk");
  EXPECT_EQ(wrote_.done, 2);
}

TEST_P(CAbiStream, TheEndComesBehindTheLastByte) {
  open();
  ASSERT_EQ(write({"last"}), "kOk");
  StreamLog finished;
  ASSERT_EQ(code(fw_stream_finish(near_stream_, StreamLog::on_done, &finished)), "kOk");
  ASSERT_TRUE(read_up_to(4));
  for (int ends = 1; ends <= 2; ++ends) {
    ASSERT_EQ(code(fw_stream_read(far_stream_, StreamLog::on_read, &read_)), "kOk");
    EXPECT_TRUE(eventually([&] { return read_.ends == ends; })) << "and so does every later read";
  }
  EXPECT_EQ(read_.text(), "last");
  EXPECT_TRUE(eventually([&] { return finished.done == 1; }));
  EXPECT_EQ(finished.error_of_done(), "");
  // Refused by the stream, so the callbacks tell.
  const int done = wrote_.done, released = wrote_.released;
  ASSERT_EQ(write({"more"}), "kOk");
  EXPECT_EQ(wrote_.done, done + 1);
  EXPECT_EQ(wrote_.released, released + 1);
  EXPECT_EQ(wrote_.error_of_done(), "kFailedPrecondition");
}

TEST_P(CAbiStream, WhatCameWholeIsReadToItsEndAfterTheChannelHasEnded) {
  open();
  ASSERT_EQ(write({"all"}), "kOk");
  StreamLog finished;
  ASSERT_EQ(code(fw_stream_finish(near_stream_, StreamLog::on_done, &finished)), "kOk");
  ASSERT_TRUE(read_up_to(3));
  ASSERT_TRUE(eventually([&] { return finished.done == 1; }));  // far has the end, and not read it
  ASSERT_EQ(code(finish(std::exchange(near_.channel, nullptr), kHang)), "kOk");
  ASSERT_TRUE(eventually([&] { return fw_channel_state(far_.channel) == FW_PEER_CLOSED; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the stream knows
  ASSERT_EQ(code(fw_stream_read(far_stream_, StreamLog::on_read, &read_)), "kOk");
  EXPECT_TRUE(eventually([&] { return read_.ends == 1; }));
  EXPECT_EQ(read_.error_of_read(), "");
}

TEST_P(CAbiStream, AnAbortEndsBothSides) {
  open();
  ASSERT_EQ(code(fw_stream_read(near_stream_, StreamLog::on_read, &wrote_)), "kOk");
  ASSERT_EQ(code(fw_stream_read(far_stream_, StreamLog::on_read, &read_)), "kOk");
  StreamLog second;
  ASSERT_EQ(code(fw_stream_read(far_stream_, StreamLog::on_read, &second)), "kOk");
  EXPECT_EQ(second.error_of_read(), "kFailedPrecondition") << "one read at a time";
  fw_stream_abort(near_stream_, 4, "the test");
  EXPECT_EQ(wrote_.reads, 1);
  EXPECT_EQ(wrote_.error_of_read(), "kOutOfRange");
  EXPECT_TRUE(eventually([&] { return read_.reads == 1; }));
  EXPECT_EQ(read_.error_of_read(), "kUnavailable");
  ASSERT_EQ(write({"late"}), "kOk");
  EXPECT_EQ(wrote_.error_of_done(), "kOutOfRange");
  EXPECT_EQ(wrote_.released, 1);
}

TEST_P(CAbiStream, AnAbortWithoutACauseIsACancel) {
  for (const int number : {0, -1, 21, 1 << 20}) {
    if (near_streams_ == nullptr) open();
    fw_stream* stream = nullptr;
    ASSERT_EQ(code(fw_streams_open(near_streams_, 100 + static_cast<unsigned>(number), &stream)),
              "kOk");
    StreamLog log;
    ASSERT_EQ(code(fw_stream_read(stream, StreamLog::on_read, &log)), "kOk");
    fw_stream_abort(stream, number, nullptr);
    EXPECT_EQ(log.error_of_read(), "kCancelled");
    fw_stream_release(stream);
  }
}

TEST_P(CAbiStream, ACallbackMayReleaseItsStream) {
  open();
  // In the call that runs it.
  const auto release = [](void* context, const fw_status*, const fw_slice* slices,
                          std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) fw_lease_release(slices[i].lease);
    fw_stream_release(std::exchange(*static_cast<fw_stream**>(context), nullptr));
  };
  ASSERT_EQ(write({"bytes"}), "kOk");
  StreamLog ended;
  ASSERT_EQ(code(fw_stream_read(near_stream_, StreamLog::on_read, &ended)), "kOk");
  // Wait until the bytes are there, or not: either way the callback comes once.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(code(fw_stream_read(far_stream_, release, &far_stream_)), "kOk");
  EXPECT_TRUE(eventually([&] { return ended.reads == 1; })) << "the release is an abort";
  EXPECT_EQ(ended.error_of_read(), "kUnavailable");
  const fw_done release_in_done = [](void* context, const fw_status*) {
    fw_stream_release(std::exchange(*static_cast<fw_stream**>(context), nullptr));
  };
  const fw_slice slice = leased("more", 4, ended);
  ASSERT_EQ(code(fw_stream_write(near_stream_, &slice, 1, release_in_done, &near_stream_)), "kOk");
  EXPECT_EQ(near_stream_, nullptr);
  EXPECT_EQ(ended.released, 1);
}

// Also that of the channel's streams, in a thread of the device.
TEST_P(CAbiStream, ACallbackMayReleaseTheLastHandles) {
  open();
  struct Last {
    fw_streams* const streams;
    std::atomic<fw_stream*> stream;
    std::atomic<int> released{0};
  } last{std::exchange(far_streams_, nullptr), {std::exchange(far_stream_, nullptr)}};
  const auto release = [](void* context, const fw_status*, const fw_slice* slices,
                          std::uint64_t count) {
    auto& last = *static_cast<Last*>(context);
    fw_streams_release(last.streams);
    fw_stream_release(last.stream.exchange(nullptr));
    for (std::uint64_t i = 0; i < count; ++i) fw_lease_release(slices[i].lease);
    ++last.released;
  };
  ASSERT_EQ(code(fw_stream_read(last.stream, release, &last)), "kOk");
  ASSERT_EQ(write({std::string(100'000, 'z')}), "kOk");
  EXPECT_TRUE(eventually([&] { return last.released == 1; }));
  ASSERT_EQ(code(fw_stream_read(near_stream_, StreamLog::on_read, &read_)), "kOk");
  EXPECT_TRUE(eventually([&] { return read_.reads == 1; }));
  EXPECT_EQ(read_.error_of_read(), "kUnavailable");
}

TEST_P(CAbiStream, AReleaseEndsWhatWaits) {
  open();
  ASSERT_EQ(code(fw_stream_read(near_stream_, StreamLog::on_read, &wrote_)), "kOk");
  ASSERT_EQ(code(fw_stream_finish(near_stream_, StreamLog::on_done, &wrote_)), "kOk");
  fw_stream_release(std::exchange(near_stream_, nullptr));
  EXPECT_EQ(wrote_.reads, 1);
  EXPECT_EQ(wrote_.done, 1);
  EXPECT_EQ(wrote_.error_of_read(), "kCancelled");
}

TEST_P(CAbiStream, StreamsEndWithTheHandleOfAll) {
  open();
  ASSERT_EQ(code(fw_stream_read(far_stream_, StreamLog::on_read, &read_)), "kOk");
  ASSERT_EQ(code(fw_stream_read(near_stream_, StreamLog::on_read, &wrote_)), "kOk");
  fw_streams_release(std::exchange(far_streams_, nullptr));
  EXPECT_EQ(read_.error_of_read(), "kCancelled");
  EXPECT_EQ(code(finish(std::exchange(far_.channel, nullptr), kHang)), "kOk");
  EXPECT_TRUE(eventually([&] { return wrote_.reads == 1; }));
  EXPECT_EQ(wrote_.error_of_read(), "kUnavailable");
}

TEST_P(CAbiStream, ALeaseOutlivesStreamChannelAndDevice) {
  open();
  ASSERT_EQ(write({std::string(100'000, 'k')}), "kOk");
  const fw_on_read keep = [](void* context, const fw_status* status, const fw_slice* slices,
                             std::uint64_t count) {
    ASSERT_EQ(status, nullptr);
    ASSERT_GE(count, 1u);
    for (std::uint64_t i = 1; i < count; ++i) fw_lease_release(slices[i].lease);
    static_cast<std::atomic<fw_slice*>*>(context)->store(new fw_slice(slices[0]));
  };
  std::atomic<fw_slice*> kept{nullptr};
  ASSERT_EQ(code(fw_stream_read(far_stream_, keep, &kept)), "kOk");
  ASSERT_TRUE(eventually([&] { return kept.load() != nullptr; }));
  fw_stream_release(std::exchange(far_stream_, nullptr));
  fw_streams_release(std::exchange(far_streams_, nullptr));
  EXPECT_EQ(code(finish(std::exchange(far_.channel, nullptr), kHang)), "kOk");
  EXPECT_EQ(code(finish(std::exchange(far_.device, nullptr), kHang)), "kOk");
  const fw_slice slice = *kept.load();
  EXPECT_EQ(std::string(static_cast<const char*>(slice.data), slice.bytes),
            std::string(slice.bytes, 'k'));
  fw_lease_release(slice.lease);
  delete kept.load();
}

TEST_P(CAbiStream, TheCloseOfTheChannelEndsTheStreams) {
  open();
  ASSERT_EQ(code(fw_stream_read(near_stream_, StreamLog::on_read, &wrote_)), "kOk");
  ASSERT_EQ(code(fw_stream_read(far_stream_, StreamLog::on_read, &read_)), "kOk");
  EXPECT_EQ(code(finish(std::exchange(near_.channel, nullptr), kHang)), "kOk");
  EXPECT_TRUE(eventually([&] { return wrote_.reads == 1 && read_.reads == 1; }));
  EXPECT_EQ(wrote_.error_of_read(), "kCancelled");
  EXPECT_EQ(read_.error_of_read(), "kUnavailable");
  fw_stream* stream = nullptr;
  EXPECT_EQ(code(fw_streams_open(near_streams_, 2, &stream)), "kCancelled");
  EXPECT_EQ(stream, nullptr);
  ASSERT_EQ(write({"late"}), "kOk");
  EXPECT_EQ(wrote_.error_of_done(), "kCancelled");
}

TEST_P(CAbiStream, APolledStreamIsDeliveredByPoll) {
  fw_stream_options options = {};
  options.struct_size = sizeof(options);
  options.polled = 1;
  open(&options);
  int descriptor = -1;
  ASSERT_EQ(code(fw_streams_descriptor(near_streams_, &descriptor)), "kOk");
  const fw_slice slice = {"polled", 6, nullptr};
  ASSERT_EQ(code(fw_stream_write(far_stream_, &slice, 1, StreamLog::on_done, &read_)), "kOk");
  ASSERT_EQ(code(fw_stream_read(near_stream_, StreamLog::on_read, &wrote_)), "kOk");
  EXPECT_EQ(wrote_.reads, 0);
  EXPECT_TRUE(eventually([&] {
    fw_streams_disarm(near_streams_);
    if (fw_streams_poll(near_streams_) == 1) return wrote_.reads == 1;
    if (fw_streams_arm(near_streams_) == 1) {
      pollfd waited = {descriptor, POLLIN, 0};
      (void)::poll(&waited, 1, 100);
    }
    return wrote_.reads == 1;
  }));
  EXPECT_EQ(wrote_.text(), "polled");
  StreamLog ended;
  ASSERT_EQ(code(fw_stream_read(near_stream_, StreamLog::on_read, &ended)), "kOk");
  fw_streams_release(std::exchange(near_streams_, nullptr));
  EXPECT_EQ(ended.reads, 1);
  EXPECT_EQ(ended.error_of_read(), "kCancelled");
}

// The device delivers: another thread would change the order of the bytes.
TEST_P(CAbiStream, WhatIsNotPolledCannotBePolled) {
  open();
  int descriptor = 77;
  EXPECT_EQ(code(fw_streams_descriptor(near_streams_, &descriptor)), "kFailedPrecondition");
  EXPECT_EQ(descriptor, 77);
  EXPECT_EQ(fw_streams_arm(near_streams_), 1);
  EXPECT_EQ(fw_streams_poll(near_streams_), 0);
  fw_streams_disarm(near_streams_);
  ASSERT_EQ(write({"still"}), "kOk");
  EXPECT_TRUE(read_up_to(5));
}

INSTANTIATE_TEST_SUITE_P(Fabrics, CAbiStream, testing::Values("shm", "tcp"),
                         [](const auto& param) { return std::string(param.param); });
#ifdef FARWRITE_HAVE_VERBS
// Over the software adapter, or over the machine's own if FARWRITE_TEST_VERBS is "real".
INSTANTIATE_TEST_SUITE_P(Verbs, CAbiStream, testing::Values("verbs"),
                         [](const auto& param) { return std::string(param.param); });
#endif

class CAbiStreamArguments : public CAbi {
 protected:
  std::string create(const fw_stream_options& options) {
    auto* const before = reinterpret_cast<fw_streams*>(std::uintptr_t{64});
    fw_streams* streams = before;
    const std::string refused =
        code(fw_streams_create(near_.device, near_.channel, &options, &streams));
    EXPECT_EQ(streams == before, refused != "kOk");
    if (streams != before) fw_streams_release(streams);
    return refused;
  }
};

TEST_F(CAbiStreamArguments, OptionsThatCannotWorkAreRefused) {
  fw_stream_options options = {};
  options.struct_size = sizeof(options);
  options.message_window = 1;
  EXPECT_EQ(create(options), "kInvalidArgument");
  options.message_window = 0;
  options.window = 1000;
  EXPECT_EQ(create(options), "kInvalidArgument");
  options.lend_from = 1000;
  options.held = 500;
  EXPECT_EQ(create(options), "kOk");
}

TEST_F(CAbiStreamArguments, TuningSetsTheOptionsOfLaterStreams) {
  fw_streams *near_streams = nullptr, *far_streams = nullptr;
  ASSERT_EQ(code(fw_streams_create(near_.device, near_.channel, nullptr, &near_streams)), "kOk");
  ASSERT_EQ(code(fw_streams_create(far_.device, far_.channel, nullptr, &far_streams)), "kOk");
  ASSERT_EQ(code(fw_streams_tune(near_streams, 1'000'000)), "kOk");
  fw_stream_options tuned = {};
  tuned.struct_size = sizeof(tuned);
  fw_streams_options(near_streams, &tuned);
  EXPECT_GT(tuned.lend_from, 0u);
  EXPECT_GT(tuned.chunk, 0u);
  EXPECT_EQ(tuned.window, 32u << 20);
  fw_streams_release(near_streams);
  fw_streams_release(far_streams);
}

TEST_F(CAbiStreamArguments, AStructOfAnotherSizeIsUnderstood) {
  fw_stream_options options = {};
  options.struct_size = offsetof(fw_stream_options, message_window);
  options.lend_from = 4096;
  options.message_window = 1;  // of no field that this program has
  fw_streams* streams = nullptr;
  ASSERT_EQ(code(fw_streams_create(near_.device, near_.channel, &options, &streams)), "kOk");
  fw_stream_options shorter = {};
  shorter.struct_size = offsetof(fw_stream_options, chunk);
  shorter.chunk = 77;
  fw_streams_options(streams, &shorter);
  EXPECT_EQ(shorter.lend_from, 4096u);
  EXPECT_EQ(shorter.chunk, 77u);
  struct {
    fw_stream_stats known;
    std::uint64_t more;
  } longer = {{}, 7};
  longer.known.struct_size = sizeof(longer);
  fw_streams_stats(streams, &longer.known);
  EXPECT_EQ(longer.known.struct_size, sizeof(longer));
  EXPECT_EQ(longer.more, 7u);
  fw_stream_stats stats = {};
  stats.struct_size = offsetof(fw_stream_stats, message_bytes);
  stats.message_bytes = 77;
  fw_streams_stats(streams, &stats);
  EXPECT_EQ(stats.message_bytes, 77u);
  fw_streams_release(streams);
}

TEST_F(CAbiStreamArguments, ANumberIsUsedOnce) {
  fw_streams* streams = nullptr;
  ASSERT_EQ(code(fw_streams_create(near_.device, near_.channel, nullptr, &streams)), "kOk");
  fw_stream* stream = nullptr;
  ASSERT_EQ(code(fw_streams_open(streams, ~std::uint64_t{0}, &stream)), "kOk");
  auto* second = reinterpret_cast<fw_stream*>(std::uintptr_t{64});
  EXPECT_EQ(code(fw_streams_open(streams, ~std::uint64_t{0}, &second)), "kAlreadyExists");
  EXPECT_EQ(second, reinterpret_cast<fw_stream*>(std::uintptr_t{64}));
  fw_stream_release(stream);
  fw_streams_release(streams);
}

TEST_F(CAbiStreamArguments, AWriteThatIsRefusedEndsItsLeasesAndCallsNothing) {
  fw_streams* streams = nullptr;
  ASSERT_EQ(code(fw_streams_create(near_.device, near_.channel, nullptr, &streams)), "kOk");
  fw_stream* stream = nullptr;
  ASSERT_EQ(code(fw_streams_open(streams, 1, &stream)), "kOk");
  StreamLog log;
  for (const fw_slice& bad :
       {fw_slice{nullptr, 1, nullptr}, fw_slice{"text", ~std::uint64_t{0}, nullptr}}) {
    const fw_slice slices[2] = {leased("good", 4, log), bad};
    EXPECT_EQ(code(fw_stream_write(stream, slices, 2, StreamLog::on_done, &log)),
              "kInvalidArgument");
  }
  fw_stream_release(stream);
  fw_streams_release(streams);
  EXPECT_EQ(log.done, 0);
  EXPECT_EQ(log.released, 2);
}

TEST_F(CAbiStreamArguments, AChannelWithAnEngineHasNoStreams) {
  fw_tensor_handlers handlers = {};
  handlers.struct_size = sizeof(handlers);
  handlers.on_message = [](void*, const fw_notification*) {};
  handlers.on_end = [](void*, int, const fw_status*) {};
  handlers.on_landing = [](void*, const fw_landing*) {};
  handlers.on_slot = [](int) {};
  handlers.run_later = [](std::uint64_t, void (*work)(void*), void* context) { work(context); };
  ASSERT_EQ(code(fw_channel_serve_tensors(near_.channel, &handlers, nullptr)), "kOk");
  fw_stream_options options = {};
  options.struct_size = sizeof(options);
  EXPECT_EQ(create(options), "kInvalidArgument");
}

}  // namespace
