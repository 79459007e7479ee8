// Two devices that meet on the fabric of the test's parameter, by the C ABI.
#pragma once

#include <cstdlib>
#include <string>

#include "c_api/handles.h"
#include "unit/c_api_fixture.h"
#ifdef FARWRITE_HAVE_VERBS
#include "verbs_double/software_rnic.h"
#endif

namespace farwrite::c_api_test {

// How a write or read ended.
struct Outcome {
  std::atomic<int> done{0};
  std::string error;
  static void take(void* context, const fw_status* status) {
    auto& self = *static_cast<Outcome*>(context);
    if (status != nullptr) self.error = fw_status_message(status);
    ++self.done;
  }
  // Posts an operation and takes its end. Returns the code of the call.
  template <typename Post>
  std::string follow(const Post& post) {
    fw_completion* completion = nullptr;
    fw_status* const posted = post(&completion);
    if (posted == nullptr) {
      EXPECT_EQ(fw_completion_on_settled(completion, take, this), nullptr);
    }
    fw_completion_free(completion);
    return code(posted);
  }
};

class CAbiOnFabric : public CAbi, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
#ifdef FARWRITE_HAVE_VERBS
    const char* const adapter = std::getenv("FARWRITE_TEST_VERBS");
    if (std::string(GetParam()) == "verbs" &&
        (adapter == nullptr || std::string(adapter) != "real")) {
      open_over(rnic_, near_);
      open_over(rnic_, far_);
      connect();
      return;
    }
#endif
    meet(GetParam());
  }

#ifdef FARWRITE_HAVE_VERBS
  // The C ABI cannot name another libibverbs, so the device is opened beneath it.
  static void open_over(farwrite::verbs_double::SoftwareRnic& rnic, End& end) {
    farwrite::DeviceOptions options;
    options.listen = {"127.0.0.1", 0};
    options.fabrics = {farwrite::FabricKind::kVerbs};
    options.token = "secret";
    options.send_limit = options.receive_limit = 16 << 20;
    options.segment_bytes = 2 << 20;
    options.send_limit_per_peer = 1 << 20;
    options.receive_limit_per_peer = 2 << 20;
    options.verbs.library = &rnic;
    auto opened = farwrite::Device::open(options);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    end.device = new fw_device{*std::move(opened)};
  }

  farwrite::verbs_double::SoftwareRnic rnic_;
#endif
};

}  // namespace farwrite::c_api_test
