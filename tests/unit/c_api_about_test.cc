// Options by keyword, tables, the log and private views by the C ABI.
#include <cstring>
#include <functional>
#include <string>

#include "unit/c_api_fixture.h"
#include "unit/json_check.h"

namespace {

using namespace farwrite::c_api_test;
using farwrite::JsonCheck;

void keep(void* context, const char* text, std::uint64_t bytes) {
  EXPECT_EQ(text[bytes], '\0');
  static_cast<std::string*>(context)->assign(text, bytes);
}

class COptions : public testing::Test {
 protected:
  ~COptions() override { fw_options_release(options_); }

  // The sentence of a refusal; empty: set.
  std::string set(const char* keyword, const char* text) {
    fw_status* const status = fw_options_set(options_, keyword, text);
    std::string sentence = fw_status_message(status);
    fw_status_free(status);
    return sentence;
  }
  std::string value(const char* keyword) {
    std::string json;
    EXPECT_EQ(code(fw_options_value(options_, keyword, keep, &json)), "kOk");
    return json;
  }
  const fw_device_options* fields() {
    const fw_device_options* fields = nullptr;
    EXPECT_EQ(code(fw_options_fields(options_, &fields)), "kOk");
    return fields;
  }

  fw_options* const options_ = fw_options_make();
};

TEST_F(COptions, AreSetAndReadByTheirKeyword) {
  EXPECT_EQ(set("lanes", "3"), "");
  EXPECT_EQ(set("fabrics", "shm,tcp"), "");
  EXPECT_EQ(set("detection_time", "2"), "");
  EXPECT_EQ(set("verbs.relaxed_ordering", "off"), "");
  EXPECT_EQ(set("name", "a \"quoted\" \\ name"), "");
  EXPECT_EQ(value("lanes"), "3");
  EXPECT_EQ(value("fabrics"), "[\"shm\",\"tcp\"]");
  EXPECT_EQ(value("detection_time"), "2.0");
  EXPECT_EQ(value("spin"), "5e-05");
  EXPECT_EQ(value("verbs.relaxed_ordering"), "false");
  EXPECT_EQ(value("name"), "\"a \\\"quoted\\\" \\\\ name\"");
  EXPECT_EQ(value("huge_pages"), "\"transparent\"");
  EXPECT_EQ(value("prefault"), "true");
  EXPECT_EQ(value("port_range"), "\"\"");
  EXPECT_EQ(value("token"), "null");
  EXPECT_EQ(fields()->lanes, 3u);
  EXPECT_STREQ(fields()->fabrics, "shm,tcp");
  EXPECT_EQ(fields()->detection_ns, 2'000'000'000u);
  EXPECT_EQ(fields()->verbs_fields->relaxed_ordering, 0);
}

TEST_F(COptions, WhatIsWrongWithATextComesWithoutTheOptionsName) {
  EXPECT_EQ(set("lanes", "many"), "is not a whole number from 1 to 64");
  EXPECT_EQ(value("lanes"), "1");
}

TEST_F(COptions, OfNoSuchKeywordAreNotFound) {
  std::string json = "untouched";
  EXPECT_EQ(code(fw_options_set(options_, "lane", "1")), "kNotFound");
  EXPECT_EQ(code(fw_options_set(options_, "metrics", "1")), "kNotFound");
  EXPECT_EQ(code(fw_options_value(options_, "lane", keep, &json)), "kNotFound");
  EXPECT_EQ(json, "untouched");
}

TEST_F(COptions, ThatNoDeviceOpensWithHaveNoFields) {
  const fw_device_options* fields = nullptr;
  EXPECT_EQ(set("fabrics", "shm,shm"), "");
  EXPECT_EQ(code(fw_options_fields(options_, &fields)), "kInvalidArgument");
  EXPECT_EQ(fields, nullptr);
}

TEST_F(COptions, AnEmptyTokenIsRefusedAndNullIsNone) {
  EXPECT_STREQ(fields()->token, nullptr);
  EXPECT_EQ(code(fw_options_set_token(options_, "", 0)), "kInvalidArgument");
  EXPECT_STREQ(fields()->token, nullptr);
  EXPECT_EQ(code(fw_options_set_token(options_, "a\0b", 3)), "kOk");
  EXPECT_EQ(fields()->token_bytes, 3u);
  EXPECT_EQ(std::memcmp(fields()->token, "a\0b", 3), 0);
  EXPECT_EQ(code(fw_options_set_token(options_, nullptr, 0)), "kOk");
  EXPECT_STREQ(fields()->token, "");
}

TEST_F(COptions, OpenADeviceThatDoesNotNeedThem) {
  EXPECT_EQ(set("listen", "127.0.0.1:0"), "");
  EXPECT_EQ(set("name", "from options"), "");
  EXPECT_EQ(set("send_limit", "16M"), "");
  EXPECT_EQ(set("send_limit_per_peer", "16M"), "");
  fw_device* device = nullptr;
  ASSERT_EQ(code(fw_device_open(fields(), &device)), "kOk");
  EXPECT_EQ(set("send_limit", "32M"), "");
  fw_memory_stats stats = {};
  stats.struct_size = sizeof(stats);
  fw_device_memory(device, &stats);
  EXPECT_EQ(stats.limit, 16u << 20);
  EXPECT_EQ(code(finish(device, kHang)), "kOk");
}

TEST(CAbout, EachTextIsJson) {
  const std::function<fw_status*(void*)> calls[] = {
      [](void* text) { return fw_about_options(keep, text); },
      [](void* text) { return fw_about_counters(keep, text); },
      [](void* text) { return fw_about_fabrics(nullptr, keep, text); },
      [](void* text) { return fw_about_topology("/sys", keep, text); },
      [](void* text) { return fw_about_topology("/no such folder", keep, text); },
  };
  for (const auto& call : calls) {
    std::string text;
    EXPECT_EQ(code(call(&text)), "kOk");
    EXPECT_TRUE(JsonCheck::is_json(text)) << text.substr(0, 200);
  }
}

TEST(CLog, HasALevelThatCanBeSet) {
  const std::string before = fw_log_level();
  EXPECT_EQ(code(fw_set_log_level("off")), "kOk");
  EXPECT_STREQ(fw_log_level(), "off");
  EXPECT_EQ(code(fw_log("error", "nobody reads it", 15)), "kOk");
  EXPECT_EQ(code(fw_set_log_level("loud")), "kInvalidArgument");
  EXPECT_EQ(code(fw_log("off", "text", 4)), "kInvalidArgument");
  EXPECT_STREQ(fw_log_level(), "off");
  EXPECT_EQ(code(fw_set_log_level(before.c_str())), "kOk");
}

TEST(CVariables, WithoutARowAreNotChecked) {
  EXPECT_EQ(code(fw_check_variable("NO_SUCH_VARIABLE")), "kOk");
}

TEST(CPrivateView, OfOtherMemoryIsACopy) {
  std::string bytes = "bytes";
  fw_slice view = {};
  ASSERT_EQ(code(fw_private_view(bytes.data(), bytes.size(), &view)), "kOk");
  ASSERT_EQ(view.bytes, bytes.size());
  auto* const own = static_cast<char*>(const_cast<void*>(view.data));
  EXPECT_EQ(std::string(own, view.bytes), "bytes");
  own[0] = 'B';
  EXPECT_EQ(bytes, "bytes");
  fw_lease_release(view.lease);
}

TEST(CPrivateView, OfBytesBehindTheEndOfMemoryIsRefused) {
  fw_slice view = {};
  char byte = 0;
  EXPECT_EQ(code(fw_private_view(&byte, ~std::uint64_t{0}, &view)), "kInvalidArgument");
  EXPECT_EQ(view.lease, nullptr);
}

}  // namespace
