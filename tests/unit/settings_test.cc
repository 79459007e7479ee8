// Settings of verbs as text, and through the C ABI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "c_api/handles.h"
#include "c_handles.h"
#include "core/option_table.h"
#include "farwrite/c_api.h"
#include "farwrite/options.h"

namespace farwrite {
namespace {

using testing::HasSubstr;

TEST(VerbsSettings, EverySettingIsFound) {
  VerbsOptions options;
  const Status set = set_verbs_options(
      "device=mlx5_0,port=2,gid_index=3,send_queue_depth=256,receive_credits=32,chunk_bytes=64M,"
      "signal_every=4,inline_bytes=0,retry_count=0,rnr_retry_count=6,relaxed_ordering=OFF,"
      "use_immediate=no",
      options);
  ASSERT_TRUE(set.ok()) << set.message();
  EXPECT_EQ(options.device, "mlx5_0");
  EXPECT_EQ(options.port, 2);
  EXPECT_EQ(options.gid_index, 3);
  EXPECT_EQ(options.send_queue_depth, 256u);
  EXPECT_EQ(options.receive_credits, 32u);
  EXPECT_EQ(options.chunk_bytes, std::uint64_t{64} << 20);
  EXPECT_EQ(options.signal_every, 4u);
  EXPECT_EQ(options.inline_bytes, 0u);
  EXPECT_EQ(options.retry_count, 0);
  EXPECT_EQ(options.rnr_retry_count, 6);
  EXPECT_EQ(options.relaxed_ordering, false);
  EXPECT_FALSE(options.use_immediate);
  EXPECT_TRUE(set_verbs_options("", options).ok());
  EXPECT_TRUE(set_verbs_options("relaxed_ordering=on,chunk_bytes=2G", options).ok());
  EXPECT_EQ(options.relaxed_ordering, true);
  EXPECT_EQ(options.chunk_bytes, std::uint64_t{2} << 30);
}

TEST(VerbsSettings, WhatCannotBeReadIsNamedAndSetsNothing) {
  for (const char* const bad :
       {"port=0", "port=256", "port=", "port=1x", "port=-1", "retry_count=8", "chunk_bytes=0",
        "chunk_bytes=9999999999G", "chunk_bytes=1MM", "signal_every=0", "use_immediate=maybe",
        "relaxed_ordering=", "library=1", "port", "=3", "inline_bytes=5000000000"}) {
    SCOPED_TRACE(bad);
    VerbsOptions options;
    const Status set = set_verbs_options("retry_count=3," + std::string(bad), options);
    EXPECT_EQ(set.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(set.message(), HasSubstr("\"" + std::string(bad) + "\" "));
    EXPECT_EQ(options.retry_count, 7);
  }
}

TEST(VerbsSettings, ComeThroughTheCAbi) {
  fw_device_options options = {};
  options.struct_size = sizeof(options);
  options.listen = "127.0.0.1:0";
  options.send_limit = 2 << 20;
  options.verbs = "retry_count=8";
  fw_device* device = nullptr;
  fw_status* status = fw_device_open(&options, &device);
  ASSERT_NE(status, nullptr);
  EXPECT_STREQ(fw_status_code_name(status), "kInvalidArgument");
  EXPECT_THAT(fw_status_message(status), HasSubstr("\"retry_count=8\""));
  fw_status_free(status);
  options.verbs = "retry_count=3";
  ASSERT_EQ(fw_device_open(&options, &device), nullptr);
  EXPECT_EQ(finish(device, 0), nullptr);
  // A caller that knows nothing of the field has a shorter struct.
  options.struct_size = offsetof(fw_device_options, verbs);
  options.verbs = "nonsense";
  ASSERT_EQ(fw_device_open(&options, &device), nullptr);
  EXPECT_EQ(finish(device, 0), nullptr);
}

TEST(CAbiOptions, NumbersCountAsTheyStandIfTheyAreExact) {
  const std::string secret("a\0b", 3);
  fw_verbs_options verbs = {};
  verbs.struct_size = sizeof(verbs);
  verbs.device = "mlx5_0";
  verbs.chunk_bytes = 4096;
  verbs.port = 2;
  verbs.gid_index = -1;
  verbs.send_queue_depth = 5;
  verbs.receive_credits = 6;
  verbs.signal_every = 7;
  verbs.retry_count = 1;
  verbs.rnr_retry_count = 2;
  verbs.relaxed_ordering = -1;
  fw_device_options options = {};
  options.struct_size = sizeof(options);
  options.exact = 1;
  options.token = secret.data();
  options.token_bytes = secret.size();
  options.segment_bytes = 2 << 20;
  options.detection_ns = 3;
  options.numa_node = 1;
  options.huge_pages = 1;
  options.verbs_fields = &verbs;
  const auto taken = c_api::to_options(&options);
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  const DeviceOptions& all = taken.value();
  EXPECT_EQ(all.token.secret(), secret);
  EXPECT_EQ(all.spin.count(), 0);
  EXPECT_EQ(all.send_limit, 0u);
  EXPECT_EQ(all.detection_time.count(), 3);
  EXPECT_EQ(all.host_timeout.count(), 0);
  EXPECT_EQ(all.numa_node, 1);
  EXPECT_FALSE(all.prefault);
  EXPECT_EQ(all.huge_pages, HugePages::kTransparent);
  EXPECT_EQ(all.verbs.device, "mlx5_0");
  EXPECT_EQ(all.verbs.port, 2);
  EXPECT_EQ(all.verbs.send_queue_depth, 5u);
  EXPECT_EQ(all.verbs.inline_bytes, 0u);
  EXPECT_FALSE(all.verbs.use_immediate);
  EXPECT_FALSE(all.verbs.relaxed_ordering.has_value());

  options.huge_pages = 3;
  EXPECT_EQ(c_api::to_options(&options).status().code(), StatusCode::kInvalidArgument);
  options.huge_pages = 0;
  verbs.port = 256;
  EXPECT_EQ(c_api::to_options(&options).status().code(), StatusCode::kInvalidArgument);
  fw_device_options defaults = {};
  defaults.struct_size = sizeof(defaults);
  EXPECT_EQ(c_api::to_options(&defaults).value().detection_time, DeviceOptions().detection_time);
  EXPECT_TRUE(c_api::to_options(&defaults).value().prefault);
}

TEST(CAbiEnvironment, GivesTheWordOfAnOption) {
  const char* word = nullptr;
  ASSERT_EQ(fw_read_option("FARWRITE_TF_ALLOCATION", &word), nullptr);
  EXPECT_STREQ(word, "unified");
  ::setenv("FARWRITE_TF_ALLOCATION", "everything", 1);
  fw_status* const status = fw_read_option("FARWRITE_TF_ALLOCATION", &word);
  ::unsetenv("FARWRITE_TF_ALLOCATION");
  EXPECT_STREQ(fw_status_code_name(status), "kInvalidArgument");
  EXPECT_THAT(fw_status_message(status),
              HasSubstr("FARWRITE_TF_ALLOCATION=everything is not unified, traced or off"));
  fw_status_free(status);
  EXPECT_STREQ(word, "unified");
}

TEST(CAbiEnvironment, OverridesTheFieldsIfItIsAskedFor) {
  ::setenv("FARWRITE_SEND_LIMIT", "4M", 1);
  fw_device_options options = {};
  options.struct_size = sizeof(options);
  options.send_limit = 2 << 20;
  const auto limit = [&] {
    fw_device* device = nullptr;
    EXPECT_EQ(fw_device_open(&options, &device), nullptr);
    fw_memory_stats memory = {};
    memory.struct_size = sizeof(memory);
    fw_device_memory(device, &memory);
    EXPECT_EQ(finish(device, 0), nullptr);
    return memory.limit;
  };
  EXPECT_EQ(limit(), 2U << 20);
  options.environment = 1;
  EXPECT_EQ(limit(), 4U << 20);
  ::setenv("FARWRITE_SEND_LIMIT", "much", 1);
  fw_device* device = nullptr;
  fw_status* const status = fw_device_open(&options, &device);
  ::unsetenv("FARWRITE_SEND_LIMIT");
  ASSERT_NE(status, nullptr);
  EXPECT_THAT(fw_status_message(status), HasSubstr("FARWRITE_SEND_LIMIT=much is not a size"));
  fw_status_free(status);
}

}  // namespace
}  // namespace farwrite
