// Verbs as one of several fabrics, on a machine that does not let a process lock enough memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <future>

#include "device/device.h"
#include "verbs_double/software_rnic.h"

namespace farwrite {
namespace {

constexpr std::chrono::seconds kBesideHang{30};

// The limit that most machines have unless told otherwise.
class LockedMemoryLimit {
 public:
  LockedMemoryLimit() {
    EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before_), 0);
    const rlimit low{std::min<rlim_t>(before_.rlim_max, 8 << 20), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);
  }
  ~LockedMemoryLimit() { EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before_), 0); }
  LockedMemoryLimit(const LockedMemoryLimit&) = delete;
  LockedMemoryLimit& operator=(const LockedMemoryLimit&) = delete;

 private:
  rlimit before_{};
};

class VerbsBesideOthers : public testing::Test {
 protected:
  DeviceOptions options(std::vector<FabricKind> fabrics) {
    DeviceOptions options;
    options.listen = {"127.0.0.1", 0};
    options.fabrics = std::move(fabrics);
    options.verbs.library = &rnic_;
    return options;
  }

  // The fabric that two such devices use.
  FabricKind used(const DeviceOptions& options) {
    auto near = Device::open(options);
    auto far = Device::open(options);
    EXPECT_TRUE(near.ok() && far.ok());
    EXPECT_TRUE(near->allocate(1000).ok());
    auto accepted = std::async(std::launch::async, [&] { return far->accept(kBesideHang); });
    auto channel = near->connect(far->endpoint(), kBesideHang);
    EXPECT_TRUE(accepted.get().ok() && channel.ok());
    return channel.ok() ? channel->peer().fabric : FabricKind();
  }

  const LockedMemoryLimit limit_;
  verbs_double::SoftwareRnic rnic_;
};

TEST_F(VerbsBesideOthers, IsUsedWhereItMayRegisterASegment) {
  EXPECT_EQ(used(options({FabricKind::kVerbs, FabricKind::kTcp})), FabricKind::kVerbs);
}

TEST_F(VerbsBesideOthers, IsLeftOutWhereItMayNot) {
  rnic_.refuse_registration(ENOMEM);
  EXPECT_EQ(used(options({FabricKind::kVerbs, FabricKind::kTcp})), FabricKind::kTcp);
  EXPECT_EQ(rnic_.registrations_live(), 0u);
}

TEST_F(VerbsBesideOthers, AloneItsErrorTells) {
  rnic_.refuse_registration(ENOMEM);
  auto device = Device::open(options({FabricKind::kVerbs}));
  ASSERT_TRUE(device.ok());
  const auto region = device->allocate(1000);
  ASSERT_FALSE(region.ok());
  EXPECT_EQ(region.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(region.status().message().find("ulimit -l"), std::string::npos);
}

}  // namespace
}  // namespace farwrite
