// The parameter box by the C ABI.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "unit/c_api_on_fabric.h"

namespace {

using namespace farwrite::c_api_test;

constexpr std::uint64_t kElements = 300'000;  // two chunks
constexpr std::uint64_t kBytes = kElements * sizeof(float);

class CAbiBox : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fw_box_options options = box_options();
    ASSERT_EQ(code(fw_box_serve(&options, &server_)), "kOk");
    connect(&client_);
  }
  void TearDown() override {
    EXPECT_EQ(code(finish(client_, kHang)), "kOk");
    if (server_ != nullptr) {
      EXPECT_EQ(code(finish(server_, kHang, 0)), "kOk");
    }
  }

  fw_device_options device_options() const {
    fw_device_options options = {};
    options.struct_size = sizeof(options);
    options.fabrics = GetParam();
    options.token = "secret";
    return options;
  }
  fw_box_options box_options() {
    device_ = device_options();
    device_.listen = "127.0.0.1:0";
    fw_box_options options = {};
    options.struct_size = sizeof(options);
    options.device = &device_;
    options.memory = 32 << 20;
    options.pool = 2 << 20;
    options.threads = 1;
    return options;
  }
  void connect(fw_box_client** client) const {
    char endpoint[FW_NAME_BYTES] = {};
    fw_box_server_endpoint(server_, endpoint);
    const fw_device_options options = device_options();
    ASSERT_EQ(code(fw_box_connect(endpoint, &options, kHang, client)), "kOk");
  }
  static fw_segment_spec spec(const char* name) {
    fw_segment_spec spec = {};
    spec.struct_size = sizeof(spec);
    spec.name = name;
    spec.type = FW_FLOAT32;
    spec.rank = 2;
    spec.dims[0] = 3;
    spec.dims[1] = kElements / 3;
    spec.description = "of floats";
    return spec;
  }
  fw_segment* create(const char* name) {
    const fw_segment_spec wanted = spec(name);
    fw_segment* segment = nullptr;
    EXPECT_EQ(code(fw_box_create(client_, &wanted, 0, &segment)), "kOk");
    return segment;
  }
  // Posts a change and waits for it. Returns the version that it made, 0 after an error.
  static std::uint64_t apply(fw_segment* segment, fw_change change, const char* expected = "kOk") {
    change.struct_size = sizeof(change);
    fw_completion* completion = nullptr;
    fw_status* const posted = fw_segment_post(segment, &change, 0, &completion);
    const bool has_begun = posted == nullptr;
    std::string outcome = code(posted);
    if (has_begun) outcome = code(fw_completion_wait(completion, kHang));
    EXPECT_EQ(outcome, expected);
    const std::uint64_t* const changed = fw_segment_changed(completion);
    const std::uint64_t version = changed == nullptr ? 0 : *changed;
    fw_completion_free(completion);
    return version;
  }
  static std::vector<float> read(const fw_segment* segment) {
    std::vector<float> floats(kElements, -1);
    EXPECT_EQ(code(fw_segment_read(segment, 0, floats.data(), kBytes, nullptr, nullptr)), "kOk");
    return floats;
  }

  fw_device_options device_ = {};
  fw_box_server* server_ = nullptr;
  fw_box_client* client_ = nullptr;
};

TEST_P(CAbiBox, AChangeThatWaitsIsDoneWhenThePostReturns) {
  fw_segment* const segment = create("weights");
  fw_change change = {};
  change.struct_size = sizeof(change);
  change.operation = FW_FILL;
  change.factor.real = 2.0;
  for (const std::uint64_t wait : {kHang, FW_FOREVER}) {
    fw_completion* completion = nullptr;
    ASSERT_EQ(code(fw_segment_post(segment, &change, wait, &completion)), "kOk");
    EXPECT_EQ(fw_completion_done(completion), 1);
    EXPECT_GT(*fw_segment_changed(completion), 0U);
    fw_completion_free(completion);
  }
  EXPECT_EQ(read(segment), std::vector<float>(kElements, 2.0F));
  // The server's refusal is the call's.
  change.operation = FW_ACCUMULATE;
  change.x_key = 12345;
  fw_completion* completion = nullptr;
  EXPECT_EQ(code(fw_segment_post(segment, &change, kHang, &completion)), "kNotFound");
  EXPECT_EQ(completion, nullptr);
  fw_segment_release(segment);
}

TEST_P(CAbiBox, ASegmentIsCreatedFoundListedAndFreed) {
  fw_segment* const made = create("weights");
  fw_segment_info info = {};
  info.struct_size = sizeof(info);
  fw_segment_get(made, &info);
  EXPECT_STREQ(info.spec->name, "weights");
  EXPECT_STREQ(info.spec->description, "of floats");
  EXPECT_EQ(info.spec->type, FW_FLOAT32);
  EXPECT_EQ(info.spec->rank, 2u);
  EXPECT_EQ(info.spec->dims[1], kElements / 3);
  EXPECT_EQ(info.spec->buffers, 4u);
  EXPECT_EQ(info.bytes, kBytes);
  const fw_segment_spec again = spec("weights");
  fw_segment* other = nullptr;
  EXPECT_EQ(code(fw_box_create(client_, &again, 0, &other)), "kAlreadyExists");
  EXPECT_EQ(other, nullptr);
  ASSERT_EQ(code(fw_box_create(client_, &again, 1, &other)), "kOk");
  EXPECT_EQ(code(finish(other)), "kOk");
  ASSERT_EQ(code(fw_box_attach_key(client_, info.key, &other)), "kOk");
  EXPECT_EQ(code(finish(other)), "kOk");
  EXPECT_EQ(code(fw_box_attach(client_, "nothing", 0, &other)), "kNotFound");
  std::vector<std::string> names;
  const auto take = [](void* context, const fw_segment_info* seen) {
    static_cast<std::vector<std::string>*>(context)->emplace_back(seen->spec->name);
  };
  EXPECT_EQ(code(fw_box_list(client_, nullptr, take, &names)), "kOk");
  EXPECT_EQ(code(fw_box_list(client_, "weights", take, &names)), "kOk");
  EXPECT_EQ(code(fw_box_list(client_, "nothing", take, &names)), "kNotFound");
  EXPECT_EQ(names, (std::vector<std::string>{"weights", "weights"}));
  fw_peer_info server = {};
  server.struct_size = sizeof(server);
  fw_box_server_info(client_, &server);
  EXPECT_STREQ(server.fabric, GetParam());
  EXPECT_STREQ(server.service, "box");
  fw_box_server_counts counts = {};
  counts.struct_size = sizeof(counts);
  fw_box_server_stats(server_, &counts);
  EXPECT_EQ(counts.clients, 1u);
  EXPECT_EQ(counts.segments, 1u);
  EXPECT_EQ(code(fw_segment_free(made)), "kOk");
  fw_segment_release(made);
  EXPECT_EQ(code(fw_box_attach(client_, "weights", 0, &other)), "kNotFound");
}

TEST_P(CAbiBox, ChangesAreAppliedInOrderAndRead) {
  fw_segment* const segment = create("weights");
  const std::vector<float> ones(kElements, 1);
  fw_change write = {};
  write.operation = FW_WRITE;
  write.memory = ones.data();
  write.memory_bytes = kBytes;
  EXPECT_EQ(apply(segment, write), 1u);
  fw_change add = write;
  add.operation = FW_ACCUMULATE;
  add.factor.real = 0.5;
  EXPECT_EQ(apply(segment, add), 2u);
  fw_change scale = {};
  scale.operation = FW_SCALE;
  scale.factor = {1, 4, 0};
  EXPECT_EQ(apply(segment, scale), 3u);
  EXPECT_EQ(read(segment), std::vector<float>(kElements, 6));
  // Of a part.
  fw_change fill = {};
  fill.operation = FW_FILL;
  fill.offset = 8;
  fill.length = 8;
  EXPECT_EQ(apply(segment, fill), 4u);
  std::array<float, 5> part = {};
  fw_read_options options = {};
  options.struct_size = sizeof(options);
  options.min_version = 4;
  std::uint32_t released = 0;
  options.release = [](void* count) { ++*static_cast<std::uint32_t*>(count); };
  options.owner = &released;
  fw_read_result result = {};
  result.struct_size = sizeof(result);
  ASSERT_EQ(code(fw_segment_read(segment, 4, part.data(), sizeof(part), &options, &result)), "kOk");
  EXPECT_EQ(part, (std::array<float, 5>{6, 0, 0, 6, 6}));
  EXPECT_EQ(result.id.version, 4u);
  EXPECT_EQ(released, 1u);
  EXPECT_EQ(code(fw_segment_read(segment, kBytes, part.data(), 4, &options, nullptr)),
            "kOutOfRange");
  EXPECT_EQ(released, 2u) << "an owner is let go of, whatever becomes of the read";
  fw_change nothing = {};
  nothing.operation = FW_WRITE;
  EXPECT_EQ(apply(segment, nothing, "kInvalidArgument"), 0u) << "neither memory nor a segment";
  write.memory_bytes -= 4;
  write.length = kBytes;
  EXPECT_EQ(apply(segment, write, "kInvalidArgument"), 0u);
  std::array<std::uint64_t, 1> chunks = {};
  std::uint64_t count = 0;
  ASSERT_EQ(code(fw_segment_chunk_versions(segment, chunks.data(), chunks.size(), &count)), "kOk");
  EXPECT_EQ(count, 2u) << "more than there was room for";
  fw_box_stats stats = {};
  stats.struct_size = sizeof(stats);
  fw_box_client_stats(client_, &stats);
  EXPECT_EQ(stats.changes, 5u);
  EXPECT_EQ(code(finish(segment)), "kOk");
}

TEST_P(CAbiBox, AnExactLengthOf0ChangesNoByteAndAnyOther0TheWholeSegment) {
  fw_segment* const segment = create("weights");
  fw_change fill = {};
  fill.operation = FW_FILL;
  fill.factor.real = 7;
  fill.exact = 1;
  EXPECT_EQ(apply(segment, fill), 1u);
  EXPECT_EQ(read(segment), std::vector<float>(kElements, 0));
  fw_change write = {};
  write.operation = FW_WRITE;
  EXPECT_EQ(apply(segment, write, "kInvalidArgument"), 0u);  // memory is NULL
  write.exact = 1;
  EXPECT_EQ(apply(segment, write), 2u);
  EXPECT_EQ(read(segment), std::vector<float>(kElements, 0));
  fill.length = FW_WHOLE;
  EXPECT_EQ(apply(segment, fill), 3u);
  fill.exact = 0;
  fill.length = 0;
  EXPECT_EQ(apply(segment, fill), 4u);
  EXPECT_EQ(read(segment), std::vector<float>(kElements, 7));
  EXPECT_EQ(code(finish(segment)), "kOk");
}

// A callback that a call owes, of which it may release the handle.
TEST_P(CAbiBox, ACallbackMayReleaseItsSegmentAndAForkedChildRunsNone) {
  struct Releases {
    fw_segment* segment;
    int times = 0;
  } releases{create("weights")};
  const auto release = [](void* context, const fw_status*, const fw_version_id*) {
    auto& self = *static_cast<Releases*>(context);
    ++self.times;
    if (self.segment != nullptr) (void)code(finish(std::exchange(self.segment, nullptr)));
  };
  fw_segment* const segment = releases.segment;
  std::uint64_t wait = 0;
  ASSERT_EQ(code(fw_segment_on_version(segment, 9, 0, release, &releases, &wait)), "kOk");
  const pid_t child = fork();
  if (child == 0) {
    fw_segment_cancel(segment, wait);
    fw_status_free(finish(segment));
    fw_status_free(finish(client_, kHang));
    _exit(releases.times);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "of the callbacks in the child";
  fw_segment_cancel(segment, wait);
  EXPECT_EQ(releases.times, 1);
  EXPECT_EQ(releases.segment, nullptr);
}

struct Told {
  std::atomic<int> times{0};
  std::string outcome;
  fw_version_id id = {};
  static void take(void* context, const fw_status* status, const fw_version_id* id) {
    auto& self = *static_cast<Told*>(context);
    self.outcome = fw_status_code_name(status);
    if (id != nullptr) self.id = *id;
    ++self.times;
  }
};

TEST_P(CAbiBox, AVersionIsWaitedForAndEachWaitIsToldOnce) {
  fw_segment* const segment = create("weights");
  fw_version_id id = {};
  EXPECT_EQ(code(fw_segment_wait(segment, 1, 0, 1'000'000, &id)), "kDeadlineExceeded");
  Told reached, cancelled, ended;
  std::uint64_t wait = 0, other = 0;
  ASSERT_EQ(code(fw_segment_on_version(segment, 1, 0, Told::take, &reached, &wait)), "kOk");
  ASSERT_EQ(code(fw_segment_on_version(segment, 2, 0, Told::take, &cancelled, &other)), "kOk");
  fw_change signal = {};
  signal.operation = FW_SIGNAL;
  EXPECT_EQ(apply(segment, signal), 1u);
  ASSERT_TRUE(eventually([&] { return reached.times == 1; }));
  EXPECT_EQ(reached.outcome, "kOk");
  EXPECT_EQ(reached.id.version, 1u);
  EXPECT_EQ(code(fw_segment_wait(segment, 1, 0, kHang, &id)), "kOk");
  EXPECT_EQ(id.epoch, reached.id.epoch);
  ASSERT_EQ(code(fw_segment_version(segment, &id)), "kOk");
  EXPECT_EQ(id.version, 1u);
  fw_segment_cancel(segment, other);
  ASSERT_TRUE(eventually([&] { return cancelled.times == 1; }));
  EXPECT_EQ(cancelled.outcome, "kCancelled");
  fw_segment_cancel(segment, wait);  // over already
  ASSERT_EQ(code(fw_segment_on_version(segment, 9, 0, Told::take, &ended, &wait)), "kOk");
  EXPECT_EQ(code(finish(server_, kHang, 0)), "kOk");
  server_ = nullptr;
  ASSERT_TRUE(eventually([&] { return ended.times == 1; }));
  EXPECT_NE(ended.outcome, "kOk");
  (void)code(finish(segment));
  EXPECT_EQ(reached.times + cancelled.times + ended.times, 3);
}

TEST_P(CAbiBox, ALeaseKeepsItsVersionAfterEverythingElseHasEnded) {
  fw_segment* segment = create("weights");
  fw_change fill = {};
  fill.operation = FW_FILL;
  fill.factor.real = 7;
  EXPECT_EQ(apply(segment, fill), 1u);
  fw_slice leased = {}, seen = {};
  fw_version_id id = {};
  ASSERT_EQ(code(fw_segment_lease(segment, kHang, &leased, &id)), "kOk");
  EXPECT_EQ(leased.bytes, kBytes);
  EXPECT_EQ(id.version, 1u);
  fill.factor.real = 8;
  EXPECT_EQ(apply(segment, fill), 2u);
  fw_version_id viewed = {};
  const std::string view = code(fw_segment_view(segment, &seen, &viewed));
  EXPECT_EQ(view, std::string(GetParam()) == "shm" ? "kOk" : "kUnsupported");
  if (view == "kOk") {
    EXPECT_EQ(static_cast<const float*>(seen.data)[0], 8);
    EXPECT_EQ(viewed.version, 2u);
    fw_lease_release(seen.lease);
  }
  EXPECT_EQ(code(finish(segment)), "kOk");
  EXPECT_EQ(code(finish(std::exchange(client_, nullptr), kHang)), "kOk");
  EXPECT_EQ(code(finish(std::exchange(server_, nullptr), kHang, 0)), "kOk");
  const auto* const floats = static_cast<const float*>(leased.data);
  EXPECT_TRUE(std::all_of(floats, floats + kElements, [](float one) { return one == 7; }));
  fw_lease_release(leased.lease);
}

TEST_P(CAbiBox, AServerPublishesDraftsAndWritesSnapshots) {
  fw_segment* const segment = create("weights");
  fw_segment_info info = {};
  info.struct_size = sizeof(info);
  fw_segment_get(segment, &info);
  fw_draft draft = {};
  ASSERT_EQ(code(fw_box_server_draft(server_, info.key, &draft)), "kOk");
  ASSERT_EQ(draft.bytes, kBytes);
  std::fill_n(static_cast<float*>(draft.data), kElements, 3.0F);
  std::uint64_t version = 0;
  ASSERT_EQ(code(fw_box_server_commit(server_, &draft, 0, 0, &version)), "kOk");
  EXPECT_EQ(version, 1u);
  EXPECT_EQ(read(segment), std::vector<float>(kElements, 3));
  EXPECT_EQ(code(fw_box_server_commit(server_, &draft, 0, 0, &version)), "kFailedPrecondition")
      << "it is no draft any more";
  fw_box_server_drop(server_, &draft);
  fw_draft odd = draft;
  odd.buffer = 4'000'000'000;
  EXPECT_EQ(code(fw_box_server_commit(server_, &odd, 0, 0, &version)), "kFailedPrecondition");
  fw_box_server_drop(server_, &odd);
  EXPECT_EQ(read(segment), std::vector<float>(kElements, 3));
  ASSERT_EQ(code(fw_box_server_draft(server_, info.key, &draft)), "kOk");
  EXPECT_EQ(code(fw_box_server_commit(server_, &draft, 0, 999'999, &version)), "kNotFound");
  EXPECT_EQ(code(fw_box_server_draft(server_, 999'999, &draft)), "kNotFound");
  EXPECT_EQ(code(fw_box_server_snapshot(server_)), "kFailedPrecondition") << "without a directory";
  EXPECT_EQ(code(fw_box_server_close(server_, kHang, 1)), "kFailedPrecondition");
  EXPECT_GT(fw_box_server_metrics(server_, nullptr, 0), 0u);
  EXPECT_EQ(code(finish(segment)), "kOk");

  const std::string folder = testing::TempDir() + "farwrite_c_box_" + GetParam();
  std::filesystem::remove_all(folder);
  fw_box_options options = box_options();
  options.snapshot_directory = folder.c_str();
  fw_box_server* kept = nullptr;
  ASSERT_EQ(code(fw_box_serve(&options, &kept)), "kOk");
  EXPECT_EQ(code(fw_box_server_snapshot(kept)), "kOk");
  EXPECT_EQ(code(finish(kept, kHang, 1)), "kOk");
  fw_box_options endless = box_options();
  endless.memory = UINT64_MAX;
  fw_box_server* none = nullptr;
  EXPECT_EQ(code(fw_box_serve(&endless, &none)), "kInvalidArgument") << "it is no small memory";
  fw_box_options tiny = box_options();
  tiny.memory = (2 << 20) - 1;
  EXPECT_EQ(code(fw_box_serve(&tiny, &none)), "kInvalidArgument") << "no segment would fit";
  options.restore = 1;
  ASSERT_EQ(code(fw_box_serve(&options, &kept)), "kOk");
  EXPECT_EQ(code(finish(kept, kHang, 0)), "kOk");
  std::filesystem::remove_all(folder);
}

TEST_P(CAbiBox, MemoryOfTheClientIsASourceAndBadNumbersAreRefused) {
  fw_segment* const segment = create("weights");
  fw_region* region = nullptr;
  ASSERT_EQ(code(fw_box_allocate(client_, kBytes, &region)), "kOk");
  std::fill_n(static_cast<float*>(fw_region_data(region)), kElements, 2.0F);
  fw_change write = {};
  write.operation = FW_WRITE;
  write.memory = fw_region_data(region);
  write.memory_bytes = kBytes;
  EXPECT_EQ(apply(segment, write), 1u);
  EXPECT_EQ(read(segment), std::vector<float>(kElements, 2));
  fw_box_stats stats = {};
  stats.struct_size = sizeof(stats);
  fw_box_client_stats(client_, &stats);
  EXPECT_EQ(stats.staged_bytes, 0u);
  fw_region_release(region);
  fw_segment_spec odd = spec("odd");
  fw_segment* none = nullptr;
  odd.rank = 17;
  EXPECT_EQ(code(fw_box_create(client_, &odd, 0, &none)), "kInvalidArgument");
  odd.rank = 1;
  odd.type = 7;
  EXPECT_EQ(code(fw_box_create(client_, &odd, 0, &none)), "kInvalidArgument");
  EXPECT_EQ(none, nullptr);
  // There is no room for the answer, so nothing was made.
  const std::string long_text((32 << 20) - 1, 'd');
  odd = spec("described");
  odd.description = long_text.c_str();
  EXPECT_EQ(code(fw_box_create(client_, &odd, 0, &none)), "kResourceExhausted");
  EXPECT_EQ(code(fw_box_attach(client_, "described", 0, &none)), "kNotFound");
  EXPECT_EQ(none, nullptr);
  std::array<std::int32_t, 2> to = {1, 2};
  EXPECT_EQ(code(fw_add_scaled(FW_INT32, to.data(), to.data(), {1, 3, 0}, std::uint64_t{1} << 62)),
            "kInvalidArgument");
  const std::array<std::int32_t, 2> from = {10, 20};
  EXPECT_EQ(code(fw_add_scaled(FW_INT32, to.data(), from.data(), {1, 3, 0}, 2)), "kOk");
  EXPECT_EQ(to, (std::array<std::int32_t, 2>{31, 62}));
  EXPECT_EQ(code(fw_add_scaled(FW_INT32, to.data(), from.data(), {0, 0, 0.5}, 2)),
            "kInvalidArgument");
  EXPECT_EQ(code(finish(segment)), "kOk");
}

INSTANTIATE_TEST_SUITE_P(Fabrics, CAbiBox, testing::Values("shm", "tcp"));

}  // namespace
