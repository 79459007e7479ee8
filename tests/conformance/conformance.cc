#include "conformance/conformance.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>

#ifdef FARWRITE_HAVE_VERBS
#include "verbs_double/software_rnic.h"
#endif

namespace farwrite {
namespace {

#if defined(FARWRITE_LIBRARY)
fabric::SimulatedOptions network_options() {
  fabric::SimulatedOptions options;
  if (const char* seed = std::getenv("FARWRITE_ADVERSARY_SEED")) {
    options.seed = std::strtoull(seed, nullptr, 10);
  }
  return options;
}
#endif

std::string_view name_of(FabricKind kind) {
#if defined(FARWRITE_LIBRARY)
  if (kind == fabric::kSimulated) return "simulated";
#endif
  return to_string(kind);
}

// Refusals and deaths are what many tests are about. Read before anything is logged.
[[maybe_unused]] const int kQuiet = ::setenv("FARWRITE_LOG", "error", 0);

}  // namespace

#ifdef FARWRITE_HAVE_VERBS
class VerbsUnderTest {
 public:
  ~VerbsUnderTest() {
    EXPECT_THAT(rnic_.complaints(), testing::IsEmpty());
    EXPECT_THAT(rnic_.leaks(), testing::IsEmpty());
    EXPECT_EQ(rnic_.rnr_count(), 0U) << "a message met no receive";
  }
  fabric::verbs::VerbsLibrary* library() { return &rnic_; }

 private:
  verbs_double::SoftwareRnic rnic_;
};
#else
class VerbsUnderTest {};
#endif

testing::AssertionResult is_ok(const Status& status) {
  if (status.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << status.to_string();
}

std::ostream& operator<<(std::ostream& out, const Variant& variant) {
  return out << name_of(variant.fabric) << " with " << variant.lanes << " lanes and "
             << variant.pollers << " pollers" << (variant.encrypted ? ", encrypted" : "");
}

std::string variant_name(const testing::TestParamInfo<Variant>& info) {
  return std::string(name_of(info.param.fabric)) + "_" + std::to_string(info.param.lanes) +
         "_lanes";
}

#if defined(FARWRITE_LIBRARY)
Conformance::Conformance() : network_(network_options()) {}
#else
Conformance::Conformance() = default;
#endif

Conformance::~Conformance() = default;

DeviceOptions Conformance::options() {
  DeviceOptions result;
  result.fabrics = {GetParam().fabric};
  result.lanes = GetParam().lanes;
  result.pollers = GetParam().pollers;
  result.huge_pages = HugePages::kOff;
  result.segment_bytes = std::uint64_t{2} << 20;
  result.handshake_timeout = kHang;
  for (std::uint64_t* limit : {&result.send_limit, &result.send_limit_per_peer,
                               &result.receive_limit, &result.receive_limit_per_peer}) {
    *limit = std::uint64_t{64} << 20;
  }
#ifdef FARWRITE_HAVE_VERBS
  const char* const adapter = std::getenv("FARWRITE_TEST_VERBS");
  if (GetParam().fabric == FabricKind::kVerbs &&
      (adapter == nullptr || std::string(adapter) != "real")) {
    if (verbs_ == nullptr) verbs_ = std::make_unique<VerbsUnderTest>();
    result.verbs.library = verbs_->library();
  }
#endif
  if (GetParam().encrypted) {
    result.token = "the token of the conformance suite";
    result.encrypt = true;
  }
  return result;
}

Device Conformance::open(const DeviceOptions& options) {
  Result<Device> device = Device::open(options);
  EXPECT_OK(device);
  return device.ok() ? *std::move(device) : Device();
}

ChannelPair Conformance::connect(Device& from, Device& to) {
  auto accepted = std::async(std::launch::async, [&] { return to.accept(kHang); });
  Result<Channel> near = from.connect(to.endpoint(), kHang);
  Result<Channel> far = accepted.get();
  EXPECT_OK(near);
  EXPECT_OK(far);
  if (!near.ok() || !far.ok()) return {};
  return {*std::move(near), *std::move(far)};
}

void Conformance::SetUp() {
  if (!GetParam().encrypted) return;
  const Status opened = Device::open(options()).status();
  if (opened.code() == StatusCode::kUnavailable) GTEST_SKIP() << opened.message();
}

ConformancePair::~ConformancePair() {
  for (Device* device : {&near_device_, &far_device_}) {
    if (device->valid()) (void)device->close(std::chrono::seconds(1));  // as a handle's end does
  }
}

void ConformancePair::SetUp() {
  Conformance::SetUp();
  if (IsSkipped()) return;
  near_device_ = open();
  far_device_ = open();
  ASSERT_TRUE(near_device_.valid() && far_device_.valid());
  ChannelPair pair = connect(near_device_, far_device_);
  near_ = pair.near;
  far_ = pair.far;
  ASSERT_TRUE(near_.valid() && far_.valid());
}

void ConformancePair::land(std::uint64_t bytes) {
  auto region = far_.allocate(bytes);
  ASSERT_OK(region);
  landing_ = *std::move(region);
  auto remote = near_.open(landing_.descriptor(), kHang);
  ASSERT_OK(remote);
  target_ = *std::move(remote);
}

void ConformancePair::show(const std::vector<std::byte>& bytes) {
  auto region = far_device_.allocate(bytes.size());
  ASSERT_OK(region);
  shown_ = *std::move(region);
  if (!bytes.empty()) std::memcpy(shown_.data(), bytes.data(), bytes.size());
  auto remote = near_.open(shown_.descriptor(), kHang);
  ASSERT_OK(remote);
  source_ = *std::move(remote);
}

std::vector<std::byte> make_bytes(std::size_t count, std::uint32_t seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>((seed * 37 + i + i / 251 * 7) % 255 + 1);
  }
  return bytes;
}

bool holds(const std::byte* data, std::size_t count, std::uint32_t seed) {
  const std::vector<std::byte> expected = make_bytes(count, seed);
  return count == 0 || std::memcmp(data, expected.data(), count) == 0;
}

Status wait_until_settled(const Completion& completion) {
  Status outcome = completion.wait(kHang);
  EXPECT_TRUE(eventually([&] { return completion.settled(); }));
  return outcome;
}

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kHang;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace farwrite
