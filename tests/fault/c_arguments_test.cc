// What a C program can get wrong in a call: an error or nothing comes of it, and no output changes.
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "c_handles.h"
#include "farwrite/c_api.h"
#include "fault/c_null_calls.h"
#include "fault/fixture.h"
#include "fault/matrix_world.h"

namespace farwrite::fault {
namespace {

constexpr std::uint64_t kLong = 20'000'000'000;
constexpr std::uint64_t kHuge = ~std::uint64_t{0};
constexpr std::uint32_t kNoLane = 77;

// What outputs hold before a call.
template <typename Handle>
Handle* untouched() {
  return reinterpret_cast<Handle*>(std::uintptr_t{64});
}

void take_nothing(void*, const fw_notification*) {}
// Calls of a refused call's callback, which there must be none of.
int called = 0;
void end_nothing(void*, int, const fw_status*) {}
void count_call(void*) { ++called; }
void count_error(void*, const fw_status*) { ++called; }

class CArguments : public FaultTest {
 protected:
  CArguments() {
    for (fw_device** device : {&near_, &far_}) {
      fw_device_options options = {};
      options.struct_size = sizeof(options);
      options.listen = "127.0.0.1:0";
      options.fabrics = "shm";
      options.token = "token";
      options.send_limit = options.receive_limit = 16 << 20;
      options.send_limit_per_peer = options.receive_limit_per_peer = 8 << 20;
      options.segment_bytes = 2 << 20;
      require(fw_device_open(&options, device));
    }
    fw_identity identity = {};
    identity.struct_size = sizeof(identity);
    fw_device_identity(far_, &identity);
    for (auto [near, far] : {std::pair(&plain_, &far_plain_), std::pair(&engine_, &far_engine_)}) {
      std::thread thread([this, far = far] { require(fw_device_accept(far_, kLong, far)); });
      require(fw_device_connect(near_, identity.endpoint, kLong, near));
      thread.join();
    }
    handlers_ = matrix_handlers(
        [](void*, const fw_landing* landing) { fw_landed_release(landing->landed); });
    require(fw_channel_serve_tensors(engine_, &handlers_, nullptr));
    require(fw_channel_serve_tensors(far_engine_, &handlers_, nullptr));
    require(fw_channel_allocate(far_plain_, 64, nullptr, &region_));
    wire_size_ = fw_region_describe(region_, wire_, sizeof(wire_));
    require(fw_channel_open(plain_, wire_, wire_size_, kLong, &target_));
    memory_ = fw_device_allocate(near_, 64);
    called = 0;
  }

  void TearDown() override {
    EXPECT_EQ(called, 0) << "of callbacks of calls that were refused";
    expect_usable();
    fw_remote_release(target_);
    fw_region_release(region_);
    fw_device_deallocate(near_, memory_);
    for (fw_channel* channel : {plain_, engine_, far_plain_, far_engine_}) {
      require(finish(channel, kLong));
    }
    require(finish(near_, kLong));
    require(finish(far_, kLong));
    FaultTest::TearDown();
  }

  static void require(fw_status* status) {
    ASSERT_EQ(status, nullptr) << fw_status_message(status);
  }
  static std::string name(fw_status* status) {
    const std::string name = fw_status_code_name(status);
    const std::string text = fw_status_message(status);
    fw_status_free(status);
    EXPECT_TRUE(name == "kOk" ||
                (text.find(": ") != std::string::npos && text.find("; ") != std::string::npos))
        << text;
    return name;
  }
  static fw_status* push(fw_channel* channel, const char* edge, const char* description,
                         const char* source, fw_done done, int* pushed) {
    return fw_channel_push(channel, edge, 1, description, 1, source, 1, 0, done, nullptr, pushed);
  }
  fw_status* lend(fw_channel* channel, std::uint64_t bytes, std::uint64_t memory_bytes,
                  std::uint32_t tag, std::uint32_t lane) {
    return fw_channel_lend(channel, "m", bytes, memory_, memory_bytes, count_call, nullptr, tag,
                           lane, nullptr);
  }
  fw_status* write(std::uint64_t head, std::uint64_t source, std::uint32_t lane) {
    fw_completion* completion = untouched<fw_completion>();
    fw_status* const status =
        fw_remote_write_notify(target_, 0, "h", head, memory_, source, 1, lane, &completion);
    EXPECT_TRUE(status == nullptr || completion == untouched<fw_completion>());
    return status;
  }
  // The functions without a status.
  void expect_nothing_of_null() {
    const std::vector<std::pair<const char*, std::function<bool()>>> calls = {
        {"fw_device_contains_all",
         [this] { return fw_device_contains_all(near_, nullptr, 1) == 0; }},
        {"fw_device_stats", [this] { return fw_device_stats(near_, nullptr), true; }},
        {"fw_device_choices", [this] { return fw_device_choices(near_, nullptr, 8) > 0; }},
        {"fw_channel_peer_info", [this] { return fw_channel_peer_info(plain_, nullptr), true; }},
        {"fw_channel_stats", [this] { return fw_channel_stats(plain_, nullptr), true; }},
        {"fw_remote_describe",
         [this] { return fw_remote_describe(target_, nullptr, 1024) == wire_size_; }},
        {"fw_remote_is_of", [this] { return fw_remote_is_of(nullptr, plain_) == 0; }},
        {"fw_remote_is_of", [this] { return fw_remote_is_of(target_, nullptr) == 0; }},
        {"fw_channel_same", [this] { return fw_channel_same(plain_, nullptr) == 0; }},
        {"fw_channel_same", [this] { return fw_channel_same(nullptr, plain_) == 0; }},
        {"fw_device_identity", [this] { return fw_device_identity(near_, nullptr), true; }},
        {"fw_device_deallocate", [this] { return fw_device_deallocate(near_, nullptr), true; }},
        {"fw_device_contains", [this] { return fw_device_contains(near_, nullptr) == 0; }},
        {"fw_device_memory", [this] { return fw_device_memory(near_, nullptr), true; }},
        {"fw_device_metrics", [this] { return fw_device_metrics(near_, nullptr, 8) > 0; }},
        {"fw_region_describe",
         [this] { return fw_region_describe(region_, nullptr, 1024) == wire_size_; }},
        {"fw_channel_has_slot",
         [this] { return fw_channel_has_slot(engine_, nullptr, 1, 8) == 0; }},
        {"fw_channel_want_slots",
         [this] { return fw_channel_want_slots(engine_, nullptr, 1, 8), true; }},
    };
    try_all({.refused = {}, .nothing = calls});
  }
  void try_all(const NullCalls& part) {
    for (const auto& [entry, call] : part.refused) {
      tried_.insert(entry);
      EXPECT_EQ(name(call()), "kInvalidArgument") << entry;
    }
    for (const auto& [entry, call] : part.nothing) {
      tried_.insert(entry);
      EXPECT_TRUE(call()) << entry;
    }
  }
  void expect_usable() {
    EXPECT_EQ(name(fw_channel_send(plain_, "m", 1, 1, 0, nullptr)), "kOk");
    EXPECT_EQ(name(fw_channel_send(engine_, "m", 1, 1, 0, nullptr)), "kOk");
    EXPECT_EQ(name(write(1, 8, 0)), "kOk");
  }

  fw_device *near_ = nullptr, *far_ = nullptr;
  fw_channel *plain_ = nullptr, *far_plain_ = nullptr;
  fw_channel *engine_ = nullptr, *far_engine_ = nullptr;
  fw_tensor_handlers handlers_ = {};
  fw_region* region_ = nullptr;
  fw_remote* target_ = nullptr;
  char wire_[1024];
  std::uint64_t wire_size_ = 0;
  void* memory_ = nullptr;
  std::set<std::string> tried_;  // entries, with NULL
};

TEST_F(CArguments, NullIsRefusedOrNothingComesOfIt) {
  fw_device* device = untouched<fw_device>();
  fw_channel* channel = untouched<fw_channel>();
  fw_region* region = untouched<fw_region>();
  fw_remote* target = untouched<fw_remote>();
  fw_completion* completion = untouched<fw_completion>();
  fw_registration* registration = untouched<fw_registration>();
  fw_lease* lease = untouched<fw_lease>();
  fw_slice slice = {};
  const char* value = untouched<const char>();
  const void* data = untouched<const void>();
  std::uint64_t bytes = 7;
  int pushed = 7, number = 7;
  const std::vector<std::pair<const char*, std::function<fw_status*()>>> calls = {
      {"fw_read_option", [&] { return fw_read_option(nullptr, &value); }},
      {"fw_read_option", [&] { return fw_read_option("FARWRITE_TF_LANDING", nullptr); }},
      {"fw_device_open", [&] { return fw_device_open(nullptr, nullptr); }},
      {"fw_device_connect", [&] { return fw_device_connect(nullptr, "127.0.0.1:1", 0, &channel); }},
      {"fw_device_connect", [&] { return fw_device_connect(near_, nullptr, 0, &channel); }},
      {"fw_device_connect", [&] { return fw_device_connect(near_, "127.0.0.1:1", 0, nullptr); }},
      {"fw_device_accept", [&] { return fw_device_accept(nullptr, 0, &channel); }},
      {"fw_device_accept", [&] { return fw_device_accept(near_, 0, nullptr); }},
      {"fw_channel_serve",
       [&] { return fw_channel_serve(nullptr, take_nothing, nullptr, nullptr); }},
      {"fw_channel_serve", [&] { return fw_channel_serve(plain_, nullptr, nullptr, nullptr); }},
      {"fw_channel_send", [&] { return fw_channel_send(nullptr, "m", 1, 1, 0, nullptr); }},
      {"fw_channel_send", [&] { return fw_channel_send(plain_, nullptr, 1, 1, 0, nullptr); }},
      {"fw_channel_lend",
       [&] {
         return fw_channel_lend(nullptr, "m", 1, memory_, 8, count_call, nullptr, 1, 0, nullptr);
       }},
      {"fw_channel_lend",
       [&] {
         return fw_channel_lend(plain_, nullptr, 1, memory_, 8, count_call, nullptr, 1, 0, nullptr);
       }},
      {"fw_channel_lend",
       [&] {
         return fw_channel_lend(plain_, "m", 1, nullptr, 8, count_call, nullptr, 1, 0, nullptr);
       }},
      {"fw_remote_map", [&] { return fw_remote_map(nullptr, kLong, &data, &bytes); }},
      {"fw_channel_allocate", [&] { return fw_channel_allocate(nullptr, 8, nullptr, &region); }},
      {"fw_channel_allocate", [&] { return fw_channel_allocate(plain_, 8, nullptr, nullptr); }},
      {"fw_channel_open",
       [&] { return fw_channel_open(nullptr, wire_, wire_size_, kLong, &target); }},
      {"fw_channel_open",
       [&] { return fw_channel_open(plain_, nullptr, wire_size_, kLong, &target); }},
      {"fw_channel_open",
       [&] { return fw_channel_open(plain_, wire_, wire_size_, kLong, nullptr); }},
      {"fw_remote_map", [&] { return fw_remote_map(target_, kLong, nullptr, &bytes); }},
      {"fw_remote_map", [&] { return fw_remote_map(target_, kLong, &data, nullptr); }},
      {"fw_remote_read", [&] { return fw_remote_read(nullptr, 0, memory_, 8, 0, &completion); }},
      {"fw_remote_read", [&] { return fw_remote_read(target_, 0, nullptr, 8, 0, &completion); }},
      {"fw_remote_read", [&] { return fw_remote_read(target_, 0, memory_, 8, 0, nullptr); }},
      {"fw_remote_write", [&] { return fw_remote_write(nullptr, 0, memory_, 8, 0, &completion); }},
      {"fw_remote_write", [&] { return fw_remote_write(target_, 0, nullptr, 8, 0, &completion); }},
      {"fw_remote_write", [&] { return fw_remote_write(target_, 0, memory_, 8, 0, nullptr); }},
      {"fw_remote_write_notify",
       [&] { return fw_remote_write_notify(nullptr, 0, "h", 1, memory_, 8, 1, 0, &completion); }},
      {"fw_remote_write_notify",
       [&] {
         return fw_remote_write_notify(target_, 0, nullptr, 1, memory_, 8, 1, 0, &completion);
       }},
      {"fw_remote_write_notify",
       [&] { return fw_remote_write_notify(target_, 0, "h", 1, nullptr, 8, 1, 0, &completion); }},
      {"fw_remote_write_notify",
       [&] { return fw_remote_write_notify(target_, 0, "h", 1, memory_, 8, 1, 0, nullptr); }},
      {"fw_remote_view", [&] { return fw_remote_view(nullptr, 0, 8, kLong, &slice); }},
      {"fw_remote_view", [&] { return fw_remote_view(target_, 0, 8, kLong, nullptr); }},
      {"fw_lease_make", [&] { return fw_lease_make(nullptr, nullptr, &lease); }},
      {"fw_lease_make", [&] { return fw_lease_make(count_call, nullptr, nullptr); }},
      {"fw_channel_on_notification",
       [&] { return fw_channel_on_notification(nullptr, take_nothing, nullptr, nullptr, kLong); }},
      {"fw_channel_on_end",
       [&] { return fw_channel_on_end(nullptr, end_nothing, nullptr, nullptr); }},
      {"fw_channel_on_end", [&] { return fw_channel_on_end(plain_, nullptr, nullptr, nullptr); }},
      {"fw_completion_on_done", [&] { return fw_completion_on_done(nullptr, nullptr, nullptr); }},
      {"fw_completion_on_settled",
       [&] { return fw_completion_on_settled(nullptr, nullptr, nullptr); }},
      {"fw_device_region", [&] { return fw_device_region(nullptr, 8, nullptr, &region); }},
      {"fw_device_region", [&] { return fw_device_region(near_, 8, nullptr, nullptr); }},
      {"fw_device_publish", [&] { return fw_device_publish(nullptr, "n", region_, nullptr); }},
      {"fw_device_publish", [&] { return fw_device_publish(near_, nullptr, region_, nullptr); }},
      {"fw_device_publish", [&] { return fw_device_publish(near_, "n", nullptr, nullptr); }},
      {"fw_device_unpublish", [&] { return fw_device_unpublish(nullptr, "n"); }},
      {"fw_device_unpublish", [&] { return fw_device_unpublish(near_, nullptr); }},
      {"fw_device_register",
       [&] { return fw_device_register(nullptr, memory_, 8, 1, &registration); }},
      {"fw_device_register",
       [&] { return fw_device_register(near_, nullptr, 8, 1, &registration); }},
      {"fw_device_register", [&] { return fw_device_register(near_, memory_, 8, 1, nullptr); }},
      {"fw_gpu_of_memory", [&] { return fw_gpu_of_memory(nullptr, &number); }},
      {"fw_gpu_of_memory", [&] { return fw_gpu_of_memory(memory_, nullptr); }},
      {"fw_copy_memory", [&] { return fw_copy_memory(nullptr, memory_, 8); }},
      {"fw_copy_memory", [&] { return fw_copy_memory(memory_, nullptr, 8); }},
      {"fw_channel_take",
       [&] { return fw_channel_take(nullptr, 0, take_nothing, nullptr, &number); }},
      {"fw_channel_take", [&] { return fw_channel_take(plain_, 0, nullptr, nullptr, &number); }},
      {"fw_channel_take",
       [&] { return fw_channel_take(plain_, 0, take_nothing, nullptr, nullptr); }},
      {"fw_channel_descriptor", [&] { return fw_channel_descriptor(nullptr, &number); }},
      {"fw_channel_descriptor", [&] { return fw_channel_descriptor(plain_, nullptr); }},
      {"fw_channel_arm", [&] { return fw_channel_arm(nullptr, &number); }},
      {"fw_channel_arm", [&] { return fw_channel_arm(plain_, nullptr); }},
      {"fw_channel_notify", [&] { return fw_channel_notify(nullptr, 1, 0, nullptr); }},
      {"fw_channel_publish", [&] { return fw_channel_publish(nullptr, "n", region_, nullptr); }},
      {"fw_channel_publish", [&] { return fw_channel_publish(plain_, nullptr, region_, nullptr); }},
      {"fw_channel_publish", [&] { return fw_channel_publish(plain_, "n", nullptr, nullptr); }},
      {"fw_channel_lookup", [&] { return fw_channel_lookup(nullptr, "n", kLong, &target); }},
      {"fw_channel_lookup", [&] { return fw_channel_lookup(plain_, nullptr, kLong, &target); }},
      {"fw_channel_lookup", [&] { return fw_channel_lookup(plain_, "n", kLong, nullptr); }},
      {"fw_channel_flush", [&] { return fw_channel_flush(nullptr, &completion); }},
      {"fw_channel_flush", [&] { return fw_channel_flush(plain_, nullptr); }},
      {"fw_channel_serve_tensors",
       [&] { return fw_channel_serve_tensors(nullptr, &handlers_, nullptr); }},
      {"fw_channel_serve_tensors",
       [&] { return fw_channel_serve_tensors(plain_, nullptr, nullptr); }},
      {"fw_channel_serve_tensors",
       [&] {
         fw_tensor_handlers without = handlers_;
         without.on_landing = nullptr;
         return fw_channel_serve_tensors(plain_, &without, nullptr);
       }},
      {"fw_channel_push", [&] { return push(nullptr, "e", "d", "s", count_error, &pushed); }},
      {"fw_channel_push", [&] { return push(engine_, nullptr, "d", "s", count_error, &pushed); }},
      {"fw_channel_push", [&] { return push(engine_, "e", nullptr, "s", count_error, &pushed); }},
      {"fw_channel_push", [&] { return push(engine_, "e", "d", nullptr, count_error, &pushed); }},
      {"fw_channel_push", [&] { return push(engine_, "e", "d", "s", nullptr, &pushed); }},
      {"fw_channel_push", [&] { return push(engine_, "e", "d", "s", count_error, nullptr); }},
  };
  try_all({.refused = calls, .nothing = {}});
  EXPECT_EQ(device, untouched<fw_device>());
  EXPECT_EQ(channel, untouched<fw_channel>());
  EXPECT_EQ(region, untouched<fw_region>());
  EXPECT_EQ(target, untouched<fw_remote>());
  EXPECT_EQ(completion, untouched<fw_completion>());
  EXPECT_EQ(lease, untouched<fw_lease>());
  EXPECT_EQ(slice.data, nullptr);
  EXPECT_EQ(registration, untouched<fw_registration>());
  EXPECT_EQ(value, untouched<const char>());
  EXPECT_EQ(data, untouched<const void>());
  EXPECT_EQ(bytes, 7u);
  EXPECT_EQ(pushed, 7);
  EXPECT_EQ(number, 7);
  expect_nothing_of_null();
  for (const NullCalls& part : {null_handle_calls(), null_about_calls(), null_tensor_calls(),
                                null_stream_calls(), null_box_calls()})
    try_all(part);
  // Without a pointer, or of a status, where NULL is success.
  for (const char* entry :
       {"fw_abi_version", "fw_version", "fw_set_interrupt", "fw_fork_stamp",
        "fw_forked_child_may_read", "fw_status_code", "fw_status_code_name", "fw_status_message",
        "fw_copy", "fw_use_cuda", "fw_wait_for_stream", "fw_options_make", "fw_check_encryption",
        "fw_log_level", "fw_write_trace", "fw_stop_trace"}) {
    tried_.insert(entry);
  }
  for (const std::string& entry : matrix_entries()) {
    EXPECT_TRUE(entry.rfind("fw_", 0) != 0 || tried_.contains(entry)) << entry;
  }
}

// A size, a lane, a tag or a time that no call can have.
TEST_F(CArguments, HugeNumbersAreRefused) {
  fw_region* region = untouched<fw_region>();
  fw_remote* target = untouched<fw_remote>();
  int pushed = 7;
  char wire[sizeof(wire_)] = {};
  const std::vector<std::pair<const char*, std::function<fw_status*()>>> calls = {
      {"allocate", [&] { return fw_channel_allocate(plain_, kHuge, nullptr, &region); }},
      {"allocate all but a page",
       [&] { return fw_channel_allocate(plain_, kHuge - 4095, nullptr, &region); }},
      {"open what is no descriptor",
       [&] { return fw_channel_open(plain_, wire, sizeof(wire), kLong, &target); }},
      {"open a cut descriptor",
       [&] { return fw_channel_open(plain_, wire_, wire_size_ - 1, kLong, &target); }},
      {"open nothing", [&] { return fw_channel_open(plain_, wire_, 0, kLong, &target); }},
      {"send too much", [&] { return fw_channel_send(plain_, "m", kHuge, 1, 0, nullptr); }},
      {"send too much by the engine",
       [&] { return fw_channel_send(engine_, "m", kHuge, 1, 0, nullptr); }},
      {"send on no lane", [&] { return fw_channel_send(plain_, "m", 1, 1, kNoLane, nullptr); }},
      {"send on no lane by the engine",
       [&] { return fw_channel_send(engine_, "m", 1, 1, kNoLane, nullptr); }},
      {"send a tag of the engine",
       [&] { return fw_channel_send(engine_, "m", 1, 1U << 24, 0, nullptr); }},
      {"lend with a tag of the engine", [&] { return lend(engine_, 1, 8, ~0U, 0); }},
      {"lend too much", [&] { return lend(plain_, 1, kHuge, 1, 0); }},
      {"lend up to the end of memory",
       [&] { return lend(plain_, 1, kHuge - reinterpret_cast<std::uintptr_t>(memory_), 1, 0); }},
      {"lend with too long a message", [&] { return lend(plain_, kHuge - 8, 8, 1, 0); }},
      {"lend with too long a message by the engine",
       [&] { return lend(engine_, kHuge - 8, 8, 1, 0); }},
      {"lend on no lane", [&] { return lend(plain_, 1, 8, 1, kNoLane); }},
      {"write too long a head", [&] { return write(513, 8, 0); }},
      {"write a head of all bytes", [&] { return write(kHuge, 8, 0); }},
      {"write too much", [&] { return write(1, 64, 0); }},
      {"write what wraps around", [&] { return write(9, kHuge - 4, 0); }},
      {"write on no lane", [&] { return write(1, 8, kNoLane); }},
      {"push by a long key",
       [&] {
         return fw_channel_push(engine_, "e", 16385, "d", 1, "s", 1, 0, count_error, nullptr,
                                &pushed);
       }},
      {"push by a huge key",
       [&] {
         return fw_channel_push(engine_, "e", kHuge, "d", 1, "s", 1, 0, count_error, nullptr,
                                &pushed);
       }},
  };
  for (const auto& [what, call] : calls) {
    EXPECT_NE(name(call()), "kOk") << what;
    EXPECT_EQ(called, 0) << what;
  }
  EXPECT_EQ(region, untouched<fw_region>());
  EXPECT_EQ(target, untouched<fw_remote>());
  EXPECT_EQ(pushed, 7);
  EXPECT_EQ(fw_device_allocate(near_, kHuge), nullptr);
  EXPECT_EQ(fw_device_allocate(near_, kHuge - 4095), nullptr);
  EXPECT_EQ(fw_channel_has_slot(engine_, "e", kHuge, 8), 0);
  fw_channel_want_slots(engine_, "e", kHuge, 8);
  fw_channel_want_slots(engine_, "e", 1, kHuge);
  // No slot is that large, and no description that long: the tensor is to be offered.
  EXPECT_EQ(
      name(fw_channel_push(engine_, "e", 1, "d", kHuge, "s", 1, 0, count_error, nullptr, &pushed)),
      "kOk");
  EXPECT_EQ(std::exchange(pushed, 7), 0);
  EXPECT_EQ(
      name(fw_channel_push(engine_, "e", 1, "d", 1, "s", kHuge, 0, count_error, nullptr, &pushed)),
      "kOk");
  EXPECT_EQ(pushed, 0);
}

TEST_F(CArguments, AChannelIsServedInOneWay) {
  EXPECT_EQ(name(fw_channel_serve(engine_, take_nothing, nullptr, nullptr)), "kInvalidArgument");
  EXPECT_EQ(name(fw_channel_serve_tensors(engine_, &handlers_, nullptr)), "kInvalidArgument");
  // The engine goes on.
  fw_channel_want_slots(far_engine_, "e", 1, 64);
  EXPECT_TRUE(eventually([&] { return fw_channel_has_slot(engine_, "e", 1, 64) == 1; }));
}

TEST_F(CArguments, ASlotIsNotLostToAPushThatIsRefused) {
  fw_channel_want_slots(far_engine_, "e", 1, 64);
  ASSERT_TRUE(eventually([&] { return fw_channel_has_slot(engine_, "e", 1, 64) == 1; }));
  for (int i = 0; i < 10; ++i) {
    int pushed = 7;
    EXPECT_NE(name(fw_channel_push(engine_, "e", 1, "d", 1, memory_, 64, kNoLane, count_error,
                                   nullptr, &pushed)),
              "kOk");
    EXPECT_EQ(pushed, 7);
  }
  int pushed = 7;
  EXPECT_EQ(name(fw_channel_push(
                engine_, "e", 1, "d", 1, memory_, 64, 0, [](void*, const fw_status*) {}, nullptr,
                &pushed)),
            "kOk");
  EXPECT_EQ(pushed, 1);
}

TEST_F(CArguments, NothingIsASizeLikeAnother) {
  fw_region* region = nullptr;
  const std::string allocated = name(fw_channel_allocate(plain_, 0, nullptr, &region));
  EXPECT_EQ(allocated == "kOk", region != nullptr);
  fw_region_release(region);
  fw_device_deallocate(near_, fw_device_allocate(near_, 0));
  EXPECT_EQ(name(fw_channel_send(plain_, nullptr, 0, 1, 0, nullptr)), "kOk");
  fw_completion* completion = untouched<fw_completion>();
  EXPECT_EQ(name(fw_remote_write_notify(target_, 0, nullptr, 0, nullptr, 0, 1, 0, &completion)),
            "kOk");
  EXPECT_EQ(completion, nullptr);
  fw_copy(nullptr, nullptr, 0);
  EXPECT_GT(fw_device_metrics(near_, nullptr, 0), 0u);
  EXPECT_EQ(fw_region_describe(region_, wire_, wire_size_ - 1), wire_size_);
  fw_channel* channel = untouched<fw_channel>();
  EXPECT_EQ(name(fw_device_accept(near_, 0, &channel)), "kDeadlineExceeded");
  EXPECT_EQ(name(fw_device_connect(near_, "127.0.0.1:1", 0, &channel)), "kUnavailable");
  EXPECT_EQ(channel, untouched<fw_channel>());
}

TEST_F(CArguments, AnEngineTakesNoChannelThatHasStreams) {
  fw_channel* const same = fw_channel_share(plain_);
  fw_streams* streams = nullptr;
  require(fw_streams_create(near_, plain_, nullptr, &streams));
  EXPECT_EQ(name(fw_channel_serve_tensors(same, &handlers_, nullptr)), "kAlreadyExists");
  fw_streams_release(streams);
  EXPECT_EQ(name(fw_channel_serve_tensors(same, &handlers_, nullptr)), "kOk");
  fw_channel_release(same);
}

TEST_F(CArguments, FieldsOfALaterVersionAreRefusedUnlessTheyAreZero) {
  struct {
    fw_device_options known;
    std::uint64_t later;
  } options = {};
  options.known.struct_size = sizeof(options);
  options.known.listen = "127.0.0.1:0";
  options.later = 1;
  fw_device* device = untouched<fw_device>();
  EXPECT_EQ(name(fw_device_open(&options.known, &device)), "kUnsupported");
  EXPECT_EQ(device, untouched<fw_device>());
  options.later = 0;
  require(fw_device_open(&options.known, &device));
  require(finish(device, kLong));
  options.known.struct_size = std::uint64_t{1} << 30;
  EXPECT_EQ(name(fw_device_open(&options.known, &device)), "kInvalidArgument");
}

// A channel outlives the handle of its device, and is still its owner's to close.
TEST_F(CArguments, ACallOnAChannelOfAClosedDeviceIsRefused) {
  fw_device* device = nullptr;
  fw_device_options options = {};
  options.struct_size = sizeof(options);
  options.listen = "127.0.0.1:0";
  options.token = "token";
  options.segment_bytes = 2 << 20;
  options.send_limit = options.receive_limit = 16 << 20;
  options.send_limit_per_peer = options.receive_limit_per_peer = 8 << 20;
  require(fw_device_open(&options, &device));
  fw_identity far = {};
  far.struct_size = sizeof(far);
  fw_device_identity(far_, &far);
  fw_channel *channel = nullptr, *accepted = nullptr;
  std::thread thread([&] { require(fw_device_accept(far_, kLong, &accepted)); });
  require(fw_device_connect(device, far.endpoint, kLong, &channel));
  thread.join();
  require(finish(device, kLong));
  EXPECT_EQ(name(fw_channel_send(channel, "m", 1, 1, 0, nullptr)), "kCancelled");
  fw_region* region = untouched<fw_region>();
  EXPECT_EQ(name(fw_channel_allocate(channel, 8, nullptr, &region)), "kCancelled");
  EXPECT_EQ(region, untouched<fw_region>());
  EXPECT_EQ(name(finish(channel, kLong)), "kOk");
  EXPECT_EQ(name(finish(accepted, kLong)), "kOk");
}

}  // namespace
}  // namespace farwrite::fault
