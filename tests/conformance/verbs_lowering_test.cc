// Each lowering of a notified write over verbs, forced by what the device is told it can do, and
// seen in the work requests that its adapter gets.
//
// The adapter is the software one, or the machine's own if FARWRITE_TEST_VERBS is "real".
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "conformance/tensor_fixture.h"
#include "fabric/verbs/real_library.h"
#include "verbs_double/software_rnic.h"

namespace farwrite {
namespace {

constexpr std::uint32_t kWrites = 30;
constexpr std::uint32_t kTensors = 40;

// The machine's libraries, which count what is posted, as the software adapter does.
class CountingLibrary : public fabric::verbs::RealLibrary {
 public:
  using RealLibrary::RealLibrary;

  int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) override {
    for (const ibv_send_wr* request = first; request != nullptr; request = request->next) {
      posted_[request->opcode].fetch_add(1);
    }
    return RealLibrary::post_send(pair, first, bad);
  }
  std::uint64_t posted(ibv_wr_opcode opcode) const { return posted_[opcode].load(); }

 private:
  std::array<std::atomic<std::uint64_t>, 32> posted_{};
};

// One that stays: its threads may be inside when a test ends.
CountingLibrary* machines_library() {
  static CountingLibrary* const library = [] {
    auto loaded = fabric::verbs::Functions::load("libibverbs.so.1", "librdmacm.so.1");
    EXPECT_OK(loaded);
    return loaded.ok() ? new CountingLibrary(*loaded) : nullptr;
  }();
  return library;
}

// What two devices have given to their adapter.
struct Posted {
  std::uint64_t writes = 0, immediates = 0, flushes = 0, messages = 0;

  Posted operator-(const Posted& before) const {
    return {writes - before.writes, immediates - before.immediates, flushes - before.flushes,
            messages - before.messages};
  }
};

class VerbsLowerings : public testing::TestWithParam<NotificationLowering> {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.fabrics = {FabricKind::kVerbs};
    options.huge_pages = HugePages::kOff;
    options.segment_bytes = options.receive_segment_bytes = std::uint64_t{1} << 20;
    options.lanes = 2;
    options.handshake_timeout = kHang;
    options.verbs.use_immediate = GetParam() == NotificationLowering::kImmediate;
    options.verbs.assume_data_in_order = GetParam() == NotificationLowering::kTailFlag;
    const char* const adapter = std::getenv("FARWRITE_TEST_VERBS");
    if (adapter != nullptr && std::string(adapter) == "real") {
      real_ = machines_library();
      ASSERT_NE(real_, nullptr);
      options.verbs.library = real_;
    } else {
      software_ = std::make_unique<verbs_double::SoftwareRnic>();
      options.verbs.library = software_.get();
    }
    Result<Device> near = Device::open(options);
    Result<Device> far = Device::open(options);
    ASSERT_OK(near);
    ASSERT_OK(far);
    near_device_ = *std::move(near);
    far_device_ = *std::move(far);
    auto accepted = std::async(std::launch::async, [&] { return far_device_.accept(kHang); });
    Result<Channel> asking = near_device_.connect(far_device_.endpoint(), kHang);
    Result<Channel> answering = accepted.get();
    ASSERT_OK(asking);
    ASSERT_OK(answering);
    near_ = *std::move(asking);
    far_ = *std::move(answering);
  }

  std::uint64_t posted(ibv_wr_opcode opcode) const {
    return real_ != nullptr ? real_->posted(opcode) : software_->posted(opcode);
  }
  Posted posted() const {
    return {posted(IBV_WR_RDMA_WRITE), posted(IBV_WR_RDMA_WRITE_WITH_IMM),
            posted(IBV_WR_RDMA_READ) + posted(IBV_WR_ATOMIC_FETCH_AND_ADD), posted(IBV_WR_SEND)};
  }

  std::unique_ptr<verbs_double::SoftwareRnic> software_;  // goes last
  CountingLibrary* real_ = nullptr;
  Device near_device_, far_device_;
  Channel near_, far_;
};

TEST_P(VerbsLowerings, NotifiedWritesAreWholeAndKeepTheOrderOfTheirLane) {
  constexpr std::uint64_t kBytes = 3000;
  auto region = far_.allocate(kWrites * kBytes);
  ASSERT_OK(region);
  auto target = near_.open(region->descriptor(), kHang);
  ASSERT_OK(target);
  const Posted before = posted();
  std::vector<std::vector<std::byte>> sources;
  std::vector<Completion> completions;
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    sources.push_back(make_bytes(kBytes, i));
    completions.push_back(near_.write_with_notify({sources[i].data(), 8},
                                                  {sources[i].data() + 8, kBytes - 8}, *target,
                                                  i * kBytes, i, i % 2));
  }
  std::uint32_t next[2] = {0, 1};
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    auto taken = far_.wait_notification(kHang);
    ASSERT_OK(taken);
    ASSERT_EQ(taken->tag, next[taken->lane]);
    ASSERT_TRUE(holds(region->data() + taken->tag * kBytes, kBytes, taken->tag));
    next[taken->lane] += 2;
  }
  for (const Completion& completion : completions) EXPECT_OK(wait_until_settled(completion));
  const Posted after = posted() - before;
  if (GetParam() == NotificationLowering::kImmediate) {
    EXPECT_EQ(after.immediates, kWrites);
    EXPECT_EQ(after.flushes, 0U);
  } else {
    // A notified write of a channel knows no tail, so it never is a tail flag.
    EXPECT_EQ(after.immediates, 0U);
    EXPECT_EQ(after.writes, kWrites);
    EXPECT_GE(after.flushes, kWrites) << "of every lane that was written";
    EXPECT_GE(after.messages, kWrites);
  }
}

TEST_P(VerbsLowerings, StaticEdgesPushInOrder) {
  const TensorSpec spec{"<f4", 4, {501}};  // its end is no multiple of 8
  ReceiverOptions options = static_edge(spec, 3);
  options.lowering = GetParam();
  options.lane = 1;
  auto receiver = TensorReceiver::open(far_, "forced", options);
  ASSERT_OK(receiver);
  auto sender = TensorSender::open(near_device_, near_, "forced", kHang);
  ASSERT_OK(sender);
  const Posted before = posted();
  for (std::uint32_t i = 1; i <= kTensors; ++i) {
    // Only with a slot there is something to lower.
    ASSERT_TRUE(eventually([&] { return sender->stats().slots_granted > 0; }));
    const std::vector<std::byte> bytes = make_bytes(2004, i);
    ASSERT_OK(wait_until_settled(sender->send(spec, {bytes.data(), bytes.size()})));
    auto tensor = receiver->receive(kHang);
    ASSERT_OK(tensor);
    ASSERT_EQ(tensor->sequence(), i);
    ASSERT_TRUE(holds(tensor->data(), tensor->size(), i));
  }
  EXPECT_EQ(receiver->stats().pushed, kTensors);
  const Posted after = posted() - before;
  switch (GetParam()) {
    case NotificationLowering::kImmediate:
      EXPECT_EQ(after.immediates, kTensors);
      EXPECT_EQ(after.flushes, 0U);
      break;
    case NotificationLowering::kFlushAndMessage:
      EXPECT_EQ(after.immediates, 0U);
      EXPECT_EQ(after.writes, kTensors);
      EXPECT_EQ(after.flushes, kTensors);
      break;
    case NotificationLowering::kTailFlag:
      EXPECT_EQ(after.immediates, 0U);
      EXPECT_EQ(after.writes, kTensors);
      EXPECT_EQ(after.flushes, 0U) << "the flag alone says that the tensor is there";
      break;
  }
}

TEST_P(VerbsLowerings, OthersAreRefusedWithTheReason) {
  for (const NotificationLowering other :
       {NotificationLowering::kImmediate, NotificationLowering::kFlushAndMessage,
        NotificationLowering::kTailFlag}) {
    const bool used = other == GetParam() || (other == NotificationLowering::kFlushAndMessage &&
                                              GetParam() == NotificationLowering::kTailFlag);
    ReceiverOptions options = static_edge(bytes_spec({8}));
    options.lowering = other;
    const Status status =
        TensorReceiver::open(far_, std::string(to_string(other)), options).status();
    EXPECT_EQ(status.ok(), used) << to_string(other) << ": " << status.to_string();
    if (!used) {
      EXPECT_CODE(kUnsupported, status);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Verbs, VerbsLowerings,
                         testing::Values(NotificationLowering::kImmediate,
                                         NotificationLowering::kFlushAndMessage,
                                         NotificationLowering::kTailFlag),
                         [](const auto& info) {
                           std::string name(to_string(info.param));
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace farwrite
