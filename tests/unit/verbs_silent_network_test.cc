// Connecting by verbs where nothing comes back.
#include <gtest/gtest.h>

#include <memory>

#include "core/event_loop.h"
#include "fabric/verbs/verbs_fabric.h"
#include "verbs_double/software_rnic.h"

namespace farwrite::fabric::verbs {
namespace {

class Nobody : public LinkObserver {
  void on_peer_dead(const Status& /*reason*/) override {}
  void on_link_error(const Status& /*reason*/) override {}
};

TEST(VerbsSilentNetwork, LeavesTimeForAnotherFabric) {
  verbs_double::SoftwareRnic rnic;
  auto loop = core::EventLoop::start("test");
  ASSERT_TRUE(loop.ok());
  FabricOptions options;
  options.library = &rnic;
  auto near = VerbsFabric::create(**loop, options);
  auto far = VerbsFabric::create(**loop, options);
  ASSERT_TRUE(near.ok() && far.ok());
  Nobody observer;
  AttachRequest request;
  request.connecting = true;
  request.peer_name = "far";
  request.peer_address = (*far)->address();  // where nothing accepts
  request.observer = &observer;
  bool in_time = false;  // a machine that stood still meanwhile proves nothing
  for (int attempt = 0; attempt < 3 && !in_time; ++attempt) {
    request.deadline = core::Deadline::after(std::chrono::seconds(3));
    const auto link = (*near)->attach(request);
    in_time = !request.deadline.expired();
    ASSERT_FALSE(link.ok());
    EXPECT_EQ(link.status().code(), StatusCode::kUnavailable);
  }
  EXPECT_TRUE(in_time);
}

}  // namespace
}  // namespace farwrite::fabric::verbs
