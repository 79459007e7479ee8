// What every fabric's links promise to the device layer (src/fabric/fabric.h), and the public API
// does not show.
#include <cstring>
#include <future>
#include <thread>

#include "conformance/conformance.h"
#include "core/event_loop.h"
#include "device/fabrics.h"
#include "memory/segment.h"

namespace farwrite {
namespace {

constexpr std::uint64_t kLinkBytes = std::uint64_t{2} << 20;

struct Observer final : fabric::LinkObserver {
  void on_peer_dead(const Status&) override {}
  void on_link_error(const Status&) override {}
};

struct Sink final : fabric::EventSink {
  void on_notification(Notification&&) override {}
};

class Links : public Conformance {
 protected:
  // One side of a link.
  struct Side {
    std::unique_ptr<core::EventLoop> loop;
    std::unique_ptr<fabric::Fabric> fabric;
    Observer observer;
    std::unique_ptr<fabric::Link> link;
  };

  void SetUp() override {
    Conformance::SetUp();
    open(near_);
    open(far_);
    auto accepted = std::async(std::launch::async, [&] { return attach(far_, false); });
    near_.link = attach(near_, true);
    far_.link = accepted.get();
    ASSERT_TRUE(near_.link != nullptr && far_.link != nullptr);
    memory::SegmentOptions landing;
    landing.bytes = kLinkBytes;
    landing.use = memory::SegmentUse::kLanding;
    landing.huge_pages = memory::HugePages::kOff;
    landing_ = memory::Segment::create(landing).value();
    std::memset(landing_->base(), 0, kLinkBytes);
  }

  void open(Side& side) {
    side.loop = core::EventLoop::start("links").value();
    side.fabric = fabric::make_fabric(GetParam().fabric, *side.loop, options()).value();
    EXPECT_OK(side.fabric->make_reachable());
  }
  std::unique_ptr<fabric::Link> attach(Side& side, bool connecting) {
    fabric::AttachRequest request;
    request.connecting = connecting;
    request.secret.fill(std::byte{7});
    request.peer_name = connecting ? "the far side" : "the near side";
    request.peer_address = far_.fabric->address();
    request.peer_host = "127.0.0.1";
    request.lanes = lanes();
    request.deadline = core::Deadline::after(kHang);
    request.observer = &side.observer;
    auto link = side.fabric->attach(request);
    EXPECT_OK(link);
    return link.ok() ? *std::move(link) : nullptr;
  }

  // Moves everything on, as the device layer's pollers do.
  void poll() {
    Sink sink;
    for (Side* side : {&near_, &far_}) {
      for (std::uint32_t lane = 0; lane < lanes(); ++lane) (void)side->link->lane(lane).poll(sink);
    }
  }
  Status revoke(std::uint64_t key, std::uint64_t region_id) {
    Status status;
    EXPECT_TRUE(eventually([&] {
      poll();
      status = far_.link->revoke(key, region_id, core::Deadline::after({}));
      return status.code() != StatusCode::kPeerSilent;
    }));
    return status;
  }
  // Whether the near side's write of one byte reaches the region.
  bool lands(std::uint64_t key, std::uint64_t region_id) {
    RegionDescriptor descriptor;
    descriptor.region_id = region_id;
    descriptor.length = 64;
    descriptor.access = Access::kWrite;
    descriptor.keys.push_back({GetParam().fabric, key});
    auto importing = std::async(std::launch::async, [&] {
      return near_.link->import(descriptor, core::Deadline::after(kHang));
    });
    EXPECT_TRUE(eventually([&] {
      poll();
      return importing.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }));
    auto window = importing.get();
    if (!window.ok()) return false;
    const std::byte byte{0x5a};
    fabric::Operation write;
    write.source = {&byte, 1};
    write.window = *window;
    landing_->base()[0] = std::byte{0};
    const Completion written = near_.link->lane(0).post(write);
    fabric::Operation flush;
    flush.kind = fabric::OperationKind::kFlush;
    const Completion flushed = near_.link->lane(0).post(flush);
    EXPECT_TRUE(eventually([&] {
      poll();
      return written.done() && flushed.done();
    }));
    return landing_->base()[0] == byte;
  }

  Side near_, far_;
  std::shared_ptr<memory::Segment> landing_;
};

TEST_P(Links, TakeAGrantBackOnce) {
  const std::uint64_t key = far_.link->grant(landing_, 0, 64, 1).value();
  EXPECT_TRUE(lands(key, 1));
  EXPECT_OK(revoke(key, 1));
  EXPECT_FALSE(lands(key, 1));
  EXPECT_OK(revoke(key, 1)) << "nothing can land there, so that is ok";
}

TEST_P(Links, TakeBackWhatTheyNeverGranted) {
  const std::uint64_t key = far_.link->grant(landing_, 0, 64, 1).value();
  EXPECT_OK(revoke(key + 1, 2));
  EXPECT_OK(revoke(0, 3));
  EXPECT_TRUE(lands(key, 1)) << "another region's grant stays";
  EXPECT_OK(revoke(key, 1));
}

TEST_P(Links, KeepAGrantWhenAnEarlierOneIsTakenBackAgain) {
  const std::uint64_t first = far_.link->grant(landing_, 0, 64, 1).value();
  EXPECT_OK(revoke(first, 1));
  const std::uint64_t second = far_.link->grant(landing_, 0, 64, 2).value();
  EXPECT_OK(revoke(first, 1));
  EXPECT_TRUE(lands(second, 2));
  EXPECT_OK(revoke(second, 2));
}

TEST_P(Links, TakeAGrantBackInSeveralThreads) {
  for (std::uint64_t region = 1; region <= 20; ++region) {
    const std::uint64_t key = far_.link->grant(landing_, 0, 64, region).value();
    std::vector<std::future<Status>> revocations;
    for (int i = 0; i < 3; ++i) {
      revocations.push_back(std::async(std::launch::async, [&, region] {
        return far_.link->revoke(key, region, core::Deadline::after(kHang));
      }));
    }
    for (auto& revocation : revocations) {
      EXPECT_TRUE(eventually([&] {
        poll();
        return revocation.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      }));
      EXPECT_OK(revocation.get());
    }
    EXPECT_FALSE(lands(key, region));
  }
}

FARWRITE_EVERY_FABRIC_INSIDE(Links);

}  // namespace
}  // namespace farwrite
