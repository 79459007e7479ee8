// Tensors over named edges by the C ABI, on a fabric that maps and on those that do not.
#include <array>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unit/c_api_on_fabric.h"

namespace {

using namespace farwrite::c_api_test;

constexpr std::uint64_t kFloats = 1000;
constexpr std::uint64_t kFloatBytes = 4 * kFloats;

fw_tensor_spec floats_of(std::uint64_t count) {
  fw_tensor_spec spec = {};
  spec.dtype = "<f4";
  spec.item_bytes = 4;
  spec.rank = 1;
  spec.dims[0] = count;
  return spec;
}

fw_receiver_options options_of_kind(fw_edge_kind kind) {
  fw_receiver_options options = {};
  options.struct_size = sizeof(options);
  options.kind = kind;
  options.spec = floats_of(kFloats);
  if (kind != FW_EDGE_STATIC) options.spec.rank = 0;
  options.max_bytes = kFloatBytes;
  return options;
}

fw_tensor_info info_of(const fw_tensor* tensor) {
  fw_tensor_info info = {};
  info.struct_size = sizeof(info);
  fw_tensor_get(tensor, &info);
  return info;
}

std::string bytes_of(const fw_tensor* tensor) {
  const fw_tensor_info info = info_of(tensor);
  return {static_cast<const char*>(info.data), info.bytes};
}

fw_tensor_stats stats_of(const fw_receiver* receiver) {
  fw_tensor_stats stats = {};
  stats.struct_size = sizeof(stats);
  fw_receiver_stats(receiver, &stats);
  return stats;
}

// Memory of the program, and what was asked of it.
struct ProgramMemory {
  std::atomic<int> allocated{0}, deallocated{0};
  std::atomic<bool> empty{false};
  std::vector<std::uint64_t> dims;

  static void* allocate(void* context, const fw_tensor_spec* spec, std::uint64_t bytes,
                        void** owner) {
    auto& self = *static_cast<ProgramMemory*>(context);
    if (self.empty) return nullptr;
    EXPECT_STREQ(spec->dtype, "<f4");
    self.dims.assign(spec->dims, spec->dims + spec->rank);
    ++self.allocated;
    void* const memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    *owner = static_cast<char*>(memory) + 1;
    return memory;
  }
  static void deallocate(void* context, void* memory, void* owner) {
    EXPECT_EQ(owner, static_cast<char*>(memory) + 1);
    std::free(memory);
    ++static_cast<ProgramMemory*>(context)->deallocated;
  }
};

class CAbiEdge : public CAbiOnFabric {
 protected:
  void TearDown() override {
    fw_sender_release(sender_);
    if (receiver_ != nullptr) {
      EXPECT_EQ(code(finish(receiver_, kHang)), "kOk");
    }
    CAbiOnFabric::TearDown();
  }
  // Both ends of an edge from near to far.
  void open(const fw_receiver_options* options) {
    ASSERT_EQ(code(fw_receiver_open(far_.channel, "edge", options, &receiver_)), "kOk");
    ASSERT_EQ(code(fw_sender_open(near_.device, near_.channel, "edge", kHang, &sender_)), "kOk");
  }
  // The same of a dynamic edge, which copies every offer into that memory.
  void open_into(ProgramMemory& memory) {
    fw_receiver_options options = options_of_kind(FW_EDGE_DYNAMIC);
    options.copy_offers = 1;
    options.allocate = ProgramMemory::allocate;
    options.deallocate = ProgramMemory::deallocate;
    options.context = &memory;
    open(&options);
  }
  std::string send(const std::string& bytes, std::uint64_t timeout_ns = kHang) {
    const fw_tensor_spec spec = floats_of(bytes.size() / 4);
    fw_completion* completion = nullptr;
    fw_status* const posted =
        fw_sender_send(sender_, &spec, bytes.data(), bytes.size(), timeout_ns, &completion);
    if (posted != nullptr) return code(posted);
    const std::string outcome = code(fw_completion_wait(completion, kHang));
    fw_completion_free(completion);
    return outcome;
  }
  fw_tensor* receive() {
    fw_tensor* tensor = nullptr;
    EXPECT_EQ(code(fw_receiver_receive(receiver_, kHang, &tensor)), "kOk");
    return tensor;
  }
  fw_tensor_stats sender_stats() const {
    fw_tensor_stats stats = {};
    stats.struct_size = sizeof(stats);
    fw_sender_stats(sender_, &stats);
    return stats;
  }
  bool maps() const { return fw_channel_maps(near_.channel) == 1; }

  fw_receiver* receiver_ = nullptr;
  fw_sender* sender_ = nullptr;
};

TEST_P(CAbiEdge, AStaticTensorLandsInASlot) {
  const fw_receiver_options options = options_of_kind(FW_EDGE_STATIC);
  open(&options);
  fw_tensor_spec announced = {};
  EXPECT_EQ(fw_sender_announced(sender_, &announced), FW_EDGE_STATIC);
  EXPECT_STREQ(announced.dtype, "<f4");
  EXPECT_EQ(announced.item_bytes, 4u);
  ASSERT_EQ(announced.rank, 1u);
  EXPECT_EQ(announced.dims[0], kFloats);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    // A slot that is released is granted soon; meanwhile a tensor would be offered.
    ASSERT_TRUE(eventually([&] { return sender_stats().slots_granted > 0; }));
    const std::string bytes(kFloatBytes, static_cast<char>('a' + i));
    ASSERT_EQ(send(bytes), "kOk");
    fw_tensor* const tensor = receive();
    const fw_tensor_info info = info_of(tensor);
    EXPECT_STREQ(info.spec.dtype, "<f4");
    EXPECT_EQ(info.spec.item_bytes, 4u);
    ASSERT_EQ(info.spec.rank, 1u);
    EXPECT_EQ(info.spec.dims[0], kFloats);
    EXPECT_EQ(info.sequence, i);
    EXPECT_EQ(info.arrival, FW_ARRIVAL_PUSHED);
    EXPECT_EQ(bytes_of(tensor), bytes);
    fw_tensor_release(tensor);
  }
  EXPECT_EQ(stats_of(receiver_).pushed, 3u);
  const fw_tensor_stats sent = sender_stats();
  EXPECT_EQ(sent.pushed, 3u);
  EXPECT_EQ(sent.offered, 0u);
}

TEST_P(CAbiEdge, ABoundedTensorBringsItsShape) {
  const fw_receiver_options options = options_of_kind(FW_EDGE_BOUNDED);
  open(&options);
  ASSERT_EQ(send(std::string(40, 'x')), "kOk");
  ASSERT_EQ(send(""), "kOk");
  EXPECT_EQ(send(std::string(kFloatBytes + 4, 'x')), "kInvalidArgument");
  fw_tensor* const tensor = receive();
  EXPECT_EQ(info_of(tensor).spec.dims[0], 10u);
  EXPECT_EQ(bytes_of(tensor), std::string(40, 'x'));
  fw_tensor* const empty = receive();
  EXPECT_EQ(info_of(empty).bytes, 0u);
  EXPECT_NE(info_of(empty).data, nullptr);
  fw_tensor_release(tensor);
  fw_tensor_release(empty);
}

TEST_P(CAbiEdge, ADynamicTensorIsMappedOrRead) {
  open(nullptr);
  fw_tensor_spec announced = floats_of(7);
  EXPECT_EQ(fw_sender_announced(sender_, &announced), FW_EDGE_DYNAMIC);
  EXPECT_EQ(announced.rank, 0u);
  const std::string bytes(8000, 'd');
  ASSERT_EQ(send(bytes), "kOk");
  fw_tensor* const tensor = receive();
  EXPECT_EQ(bytes_of(tensor), bytes);
  EXPECT_EQ(info_of(tensor).arrival, maps() ? FW_ARRIVAL_ALIASED : FW_ARRIVAL_READ);
  EXPECT_EQ(stats_of(receiver_).offered, 1u);
  fw_tensor_release(tensor);
}

TEST_P(CAbiEdge, AnOfferIsReadIntoMemoryOfTheProgram) {
  ProgramMemory memory;
  open_into(memory);
  const std::string bytes(8000, 'r');
  ASSERT_EQ(send(bytes), "kOk");
  fw_tensor* const tensor = receive();
  EXPECT_EQ(bytes_of(tensor), bytes);
  EXPECT_EQ(info_of(tensor).arrival, FW_ARRIVAL_READ);
  EXPECT_EQ(memory.dims, std::vector<std::uint64_t>{2000});
  EXPECT_EQ(code(finish(std::exchange(receiver_, nullptr), kHang)), "kOk");
  EXPECT_EQ(memory.deallocated, 0) << "the tensor outlives its receiver";
  fw_tensor_release(tensor);
  EXPECT_EQ(memory.allocated, 1);
  EXPECT_EQ(memory.deallocated, 1);
}

TEST_P(CAbiEdge, ATensorWithoutMemoryStaysTheNextOne) {
  ProgramMemory memory;
  open_into(memory);
  memory.empty = true;
  ASSERT_EQ(send(std::string(kFloatBytes, 'm')), "kOk");
  auto* tensor = reinterpret_cast<fw_tensor*>(std::uintptr_t{64});
  EXPECT_EQ(code(fw_receiver_receive(receiver_, kHang, &tensor)), "kResourceExhausted");
  EXPECT_EQ(tensor, reinterpret_cast<fw_tensor*>(std::uintptr_t{64}));
  memory.empty = false;
  tensor = receive();
  EXPECT_EQ(info_of(tensor).sequence, 1u);
  fw_tensor_release(tensor);
  EXPECT_EQ(memory.deallocated, memory.allocated);
}

TEST_P(CAbiEdge, MemoryOfTheDeviceIsTheSendersAgainWhenTheTensorIsReleased) {
  open(nullptr);
  void* const memory = fw_device_allocate(near_.device, kFloatBytes);
  std::memset(memory, 's', kFloatBytes);
  const fw_tensor_spec spec = floats_of(kFloats);
  fw_completion* sent = nullptr;
  ASSERT_EQ(code(fw_sender_send(sender_, &spec, memory, kFloatBytes, kHang, &sent)), "kOk");
  ASSERT_NE(sent, nullptr);
  fw_tensor* const tensor = receive();
  EXPECT_EQ(bytes_of(tensor), std::string(kFloatBytes, 's'));
  if (maps()) {
    EXPECT_EQ(fw_completion_settled(sent), 0);
  }
  fw_tensor_release(tensor);
  EXPECT_EQ(code(fw_completion_wait(sent, kHang)), "kOk");
  fw_completion_free(sent);
  fw_device_deallocate(near_.device, memory);
}

TEST_P(CAbiEdge, NoTensorInTimeIsNoError) {
  open(nullptr);
  for (const std::uint64_t timeout : {std::uint64_t{0}, std::uint64_t{1'000'000}}) {
    auto* tensor = reinterpret_cast<fw_tensor*>(std::uintptr_t{64});
    EXPECT_EQ(code(fw_receiver_receive(receiver_, timeout, &tensor)), "kOk");
    EXPECT_EQ(tensor, nullptr);
  }
}

TEST_P(CAbiEdge, ASenderThatClosesWaitsForTheReceiver) {
  open(nullptr);
  ASSERT_EQ(send(std::string(40, 'c')), "kOk");
  ASSERT_EQ(code(fw_sender_close(sender_, 1'000'000)), "kDeadlineExceeded");
  fw_tensor_spec announced = {};
  EXPECT_EQ(fw_sender_announced(sender_, &announced), FW_EDGE_DYNAMIC) << "the handle is valid";
  fw_tensor_release(receive());
  fw_tensor* tensor = nullptr;
  EXPECT_EQ(code(fw_receiver_receive(receiver_, kHang, &tensor)), "kEndOfStream");
  EXPECT_EQ(code(finish(std::exchange(sender_, nullptr), kHang)), "kOk");
}

TEST_P(CAbiEdge, AnAbandonedStreamHasNoEnd) {
  open(nullptr);
  ASSERT_EQ(send(std::string(40, 'a')), "kOk");
  fw_sender_release(std::exchange(sender_, nullptr));
  fw_tensor_release(receive());
  fw_tensor* tensor = nullptr;
  EXPECT_EQ(code(fw_receiver_receive(receiver_, kHang, &tensor)), "kUnavailable");
}

TEST_P(CAbiEdge, AResetDropsWhatHasArrived) {
  const fw_receiver_options options = options_of_kind(FW_EDGE_STATIC);
  open(&options);
  ASSERT_EQ(send(std::string(kFloatBytes, 'o')), "kOk");
  // Processes what has come, and takes nothing.
  ASSERT_TRUE(eventually([&] {
    fw_tensor* tensor = nullptr;
    EXPECT_EQ(code(fw_receiver_receive(receiver_, 0, &tensor)), "kOk");
    if (tensor == nullptr) return false;
    fw_tensor_release(tensor);
    return true;
  }));
  ASSERT_EQ(send(std::string(kFloatBytes, 'p')), "kOk");
  ASSERT_EQ(code(fw_receiver_reset(receiver_)), "kOk");
  // It stays behind until the sender has received the reset.
  ASSERT_TRUE(eventually([&] {
    EXPECT_EQ(send(std::string(kFloatBytes, 'q')), "kOk");
    fw_tensor* tensor = nullptr;
    EXPECT_EQ(code(fw_receiver_receive(receiver_, 1'000'000, &tensor)), "kOk");
    if (tensor == nullptr) return false;
    EXPECT_EQ(bytes_of(tensor), std::string(kFloatBytes, 'q'));
    fw_tensor_release(tensor);
    return true;
  }));
}

TEST_P(CAbiEdge, ATensorOutlivesReceiverChannelAndDevice) {
  const fw_receiver_options options = options_of_kind(FW_EDGE_STATIC);
  open(&options);
  ASSERT_EQ(send(std::string(kFloatBytes, 'l')), "kOk");
  fw_tensor* const tensor = receive();
  EXPECT_EQ(code(finish(std::exchange(receiver_, nullptr), kHang)), "kOk");
  EXPECT_TRUE(eventually([&] { return send(std::string(kFloatBytes, 'n')) == "kUnavailable"; }))
      << "the sender gets to know of the close, and no later byte lands";
  EXPECT_EQ(code(finish(std::exchange(far_.channel, nullptr), kHang)), "kOk");
  EXPECT_EQ(code(finish(std::exchange(far_.device, nullptr), kHang)), "kOk");
  EXPECT_EQ(bytes_of(tensor), std::string(kFloatBytes, 'l'));
  EXPECT_STREQ(info_of(tensor).spec.dtype, "<f4");
  fw_tensor_release(tensor);
}

TEST_P(CAbiEdge, AThreadThatReceivesIsCancelledByTheClose) {
  open(nullptr);
  std::promise<void> begun;
  auto received = std::async(std::launch::async, [&begun, receiver = receiver_] {
    fw_tensor* tensor = nullptr;
    begun.set_value();
    return code(fw_receiver_receive(receiver, FW_FOREVER, &tensor));
  });
  begun.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(code(fw_receiver_close(receiver_, kHang)), "kOk");
  EXPECT_EQ(received.get(), "kCancelled");
}

TEST_P(CAbiEdge, AnEdgeWithoutAPartnerIsRefused) {
  auto* sender = reinterpret_cast<fw_sender*>(std::uintptr_t{64});
  EXPECT_EQ(code(fw_sender_open(near_.device, near_.channel, "nobody's", 1'000'000, &sender)),
            "kDeadlineExceeded");
  EXPECT_EQ(sender, reinterpret_cast<fw_sender*>(std::uintptr_t{64}));
  open(nullptr);
  fw_receiver* second = nullptr;
  EXPECT_EQ(code(fw_receiver_open(far_.channel, "edge", nullptr, &second)), "kAlreadyExists");
  EXPECT_EQ(code(fw_sender_open(near_.device, near_.channel, "edge", 1'000'000, &sender)),
            "kAlreadyExists");
}

INSTANTIATE_TEST_SUITE_P(Fabrics, CAbiEdge, testing::Values("shm", "tcp"),
                         [](const auto& param) { return std::string(param.param); });
#ifdef FARWRITE_HAVE_VERBS
// Over the software adapter, or over the machine's own if FARWRITE_TEST_VERBS is "real".
INSTANTIATE_TEST_SUITE_P(Verbs, CAbiEdge, testing::Values("verbs"),
                         [](const auto& param) { return std::string(param.param); });
#endif

class CAbiEdgeArguments : public CAbi {
 protected:
  // The code of an open that is refused.
  std::string open(const fw_receiver_options& options, const char* name = "edge") {
    auto* const before = reinterpret_cast<fw_receiver*>(std::uintptr_t{64});
    fw_receiver* receiver = before;
    const std::string refused = code(fw_receiver_open(far_.channel, name, &options, &receiver));
    EXPECT_EQ(receiver, before);
    return refused;
  }
};

TEST_F(CAbiEdgeArguments, AnEdgeThatCannotBeIsRefused) {
  fw_receiver_options options = options_of_kind(FW_EDGE_STATIC);
  EXPECT_EQ(open(options, ""), "kInvalidArgument");
  EXPECT_EQ(open(options, std::string(5000, 'n').c_str()), "kInvalidArgument");
  options.spec.rank = FW_MAX_RANK + 1;
  EXPECT_EQ(open(options), "kInvalidArgument");
  options = options_of_kind(FW_EDGE_STATIC);
  options.spec.dims[0] = ~std::uint64_t{0};
  EXPECT_EQ(open(options), "kInvalidArgument");
  options = options_of_kind(FW_EDGE_STATIC);
  const std::string long_dtype(513, 'd');
  options.spec.dtype = long_dtype.c_str();
  EXPECT_EQ(open(options), "kInvalidArgument");
  options = options_of_kind(FW_EDGE_STATIC);
  options.slots = 1025;
  EXPECT_EQ(open(options), "kInvalidArgument");
  options.slots = 0;
  options.lane = 77;
  EXPECT_EQ(open(options), "kInvalidArgument");
  options.lane = 0;
  options.lowering = 4;
  EXPECT_EQ(open(options), "kInvalidArgument");
  options.lowering = 0;
  options.allocate = ProgramMemory::allocate;
  EXPECT_EQ(open(options), "kInvalidArgument");
  options = options_of_kind(FW_EDGE_BOUNDED);
  options.spec.rank = 1;
  EXPECT_EQ(open(options), "kInvalidArgument");
  const std::uint32_t unknown = FW_EDGE_DYNAMIC + 1;
  std::memcpy(&options.kind, &unknown, sizeof(options.kind));
  EXPECT_EQ(open(options), "kInvalidArgument");
}

// Zero is the default of every field but the size.
TEST_F(CAbiEdgeArguments, AnEarlierProgramGivesFewerOptions) {
  fw_receiver_options options = options_of_kind(FW_EDGE_STATIC);
  options.struct_size = offsetof(fw_receiver_options, slots);
  options.slots = 1025;
  fw_receiver* receiver = nullptr;
  ASSERT_EQ(code(fw_receiver_open(far_.channel, "edge", &options, &receiver)), "kOk");
  EXPECT_EQ(stats_of(receiver).slots_granted, 2u);
  EXPECT_EQ(code(finish(receiver, kHang)), "kOk");
  options.struct_size = offsetof(fw_receiver_options, kind);
  ASSERT_EQ(code(fw_receiver_open(far_.channel, "another", &options, &receiver)), "kOk");
  EXPECT_EQ(stats_of(receiver).grants, 0u) << "a dynamic edge has no slots";
  EXPECT_EQ(code(finish(receiver, kHang)), "kOk");
  struct {
    fw_receiver_options known;
    std::uint64_t more;
  } later = {options_of_kind(FW_EDGE_STATIC), 0};
  later.known.struct_size = sizeof(later);
  ASSERT_EQ(code(fw_receiver_open(far_.channel, "later", &later.known, &receiver)), "kOk");
  EXPECT_EQ(code(finish(receiver, kHang)), "kOk");
}

TEST_F(CAbiEdgeArguments, FillsNoMoreOfAStructThanItsSize) {
  const fw_receiver_options options = options_of_kind(FW_EDGE_STATIC);
  fw_receiver* receiver = nullptr;
  ASSERT_EQ(code(fw_receiver_open(far_.channel, "edge", &options, &receiver)), "kOk");
  fw_tensor_stats shorter = {};
  shorter.struct_size = offsetof(fw_tensor_stats, slots_free);
  shorter.slots_granted = 77;
  fw_receiver_stats(receiver, &shorter);
  EXPECT_EQ(shorter.grants, 2u);
  EXPECT_EQ(shorter.slots_granted, 77u);
  struct {
    fw_tensor_stats known;
    std::uint64_t more;
  } longer = {{}, 7};
  longer.known.struct_size = sizeof(longer);
  fw_receiver_stats(receiver, &longer.known);
  EXPECT_EQ(longer.known.slots_granted, 2u);
  EXPECT_EQ(longer.known.struct_size, sizeof(longer));
  EXPECT_EQ(longer.more, 7u);

  fw_sender* sender = nullptr;
  ASSERT_EQ(code(fw_sender_open(near_.device, near_.channel, "edge", kHang, &sender)), "kOk");
  const std::string bytes(kFloatBytes, 'f');
  const fw_tensor_spec spec = floats_of(kFloats);
  fw_completion* sent = nullptr;
  ASSERT_EQ(code(fw_sender_send(sender, &spec, bytes.data(), bytes.size(), kHang, &sent)), "kOk");
  fw_completion_free(sent);
  fw_tensor* tensor = nullptr;
  ASSERT_EQ(code(fw_receiver_receive(receiver, kHang, &tensor)), "kOk");
  fw_tensor_info info = {};
  info.struct_size = offsetof(fw_tensor_info, sequence);
  info.sequence = 77;
  fw_tensor_get(tensor, &info);
  EXPECT_EQ(info.bytes, kFloatBytes);
  EXPECT_EQ(info.sequence, 77u);
  fw_tensor_release(tensor);
  EXPECT_EQ(code(finish(sender, kHang)), "kOk");
  EXPECT_EQ(code(finish(receiver, kHang)), "kOk");
}

TEST_F(CAbiEdgeArguments, ATensorThatDoesNotFitTheEdgeIsRefused) {
  const fw_receiver_options options = options_of_kind(FW_EDGE_STATIC);
  fw_receiver* receiver = nullptr;
  fw_sender* sender = nullptr;
  ASSERT_EQ(code(fw_receiver_open(far_.channel, "edge", &options, &receiver)), "kOk");
  ASSERT_EQ(code(fw_sender_open(near_.device, near_.channel, "edge", kHang, &sender)), "kOk");
  const std::string bytes(kFloatBytes, 'f');
  auto* const before = reinterpret_cast<fw_completion*>(std::uintptr_t{64});
  const auto refused = [&](const fw_tensor_spec& spec, std::uint64_t size) {
    fw_completion* completion = before;
    const std::string outcome =
        code(fw_sender_send(sender, &spec, bytes.data(), size, kHang, &completion));
    EXPECT_EQ(completion, before);
    return outcome;
  };
  fw_tensor_spec spec = floats_of(kFloats);
  EXPECT_EQ(refused(spec, kFloatBytes - 1), "kInvalidArgument");
  EXPECT_EQ(refused(spec, ~std::uint64_t{0}), "kInvalidArgument");
  EXPECT_EQ(refused(floats_of(kFloats - 1), kFloatBytes - 4), "kInvalidArgument");
  spec.dtype = nullptr;
  EXPECT_EQ(refused(spec, kFloatBytes), "kInvalidArgument") << "NULL is another dtype, \"\"";
  spec = floats_of(kFloats);
  spec.rank = FW_MAX_RANK + 1;
  EXPECT_EQ(refused(spec, kFloatBytes), "kInvalidArgument");
  EXPECT_EQ(code(finish(sender, kHang)), "kOk");
  EXPECT_EQ(code(finish(receiver, kHang)), "kOk");
}

TEST_F(CAbiEdgeArguments, AChannelWithAnEngineHasNoNamedEdges) {
  fw_tensor_handlers handlers = {};
  handlers.struct_size = sizeof(handlers);
  handlers.on_message = [](void*, const fw_notification*) {};
  handlers.on_end = [](void*, int, const fw_status*) {};
  handlers.on_landing = [](void*, const fw_landing*) {};
  handlers.on_slot = [](int) {};
  handlers.run_later = [](std::uint64_t, void (*work)(void*), void* context) { work(context); };
  ASSERT_EQ(code(fw_channel_serve_tensors(far_.channel, &handlers, nullptr)), "kOk");
  EXPECT_EQ(open(options_of_kind(FW_EDGE_STATIC)), "kInvalidArgument");
  fw_sender* sender = nullptr;
  EXPECT_EQ(code(fw_sender_open(far_.device, far_.channel, "edge", kHang, &sender)),
            "kInvalidArgument");
  EXPECT_EQ(sender, nullptr);
}

}  // namespace
