// The rows of options, and what is made of them: parsers, the environment, checks.
#include "core/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/completion.h"

namespace farwrite::core {
namespace {

using testing::HasSubstr;

class Variable {
 public:
  Variable(const char* name, const char* text) : name_(name) { ::setenv(name, text, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

// The fault, or nothing.
std::string set(const char* name, const std::string& text, DeviceOptions& options) {
  const Option* const option = find_keyword(name);
  return parse(*option, text, option->field(options));
}

TEST(OptionTable, DefaultsAreInRange) {
  const Status status = check_ranges(DeviceOptions());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(OptionTable, AFieldOutOfRangeIsNamed) {
  DeviceOptions lanes;
  lanes.lanes = kMaxLanes + 1;
  EXPECT_EQ(check_ranges(lanes).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(check_ranges(lanes).message(), HasSubstr("lanes=65 is not a whole number from 1 to"));
  DeviceOptions limit;
  limit.receive_limit_per_peer = kMinMemoryLimit - 1;
  EXPECT_THAT(check_ranges(limit).message(), HasSubstr("receive_limit_per_peer=2097151 is not a"));
  DeviceOptions time;
  time.host_timeout = std::chrono::milliseconds(999);
  EXPECT_THAT(check_ranges(time).message(), HasSubstr("host_timeout=999000000 ns is not a time"));
  DeviceOptions handshake;
  handshake.handshake_timeout = std::chrono::nanoseconds(1);
  EXPECT_THAT(check_ranges(handshake).message(),
              HasSubstr("handshake_timeout=1 ns is not a time of 100 ms or more"));
  DeviceOptions name;
  name.name = std::string(256, 'n');
  EXPECT_THAT(check_ranges(name).message(), HasSubstr("name=256 bytes is not a text of 1 to 255"));
  DeviceOptions retries;
  retries.verbs.rnr_retry_count = 8;
  EXPECT_THAT(check_ranges(retries).message(), HasSubstr("verbs.rnr_retry_count=8 is not"));
}

TEST(OptionTable, SizesAreReadAsPeopleWriteThem) {
  DeviceOptions options;
  for (const auto& [text, bytes] : {std::pair<const char*, std::uint64_t>{"4194304", 4 << 20},
                                    {" 4M ", 4 << 20},
                                    {"4mb", 4 << 20},
                                    {"4096KiB", 4 << 20},
                                    {"1.5G", std::uint64_t{3} << 29},
                                    {"2T", std::uint64_t{2} << 40},
                                    {"9223372036854775807", 9223372036854775807U}}) {
    EXPECT_EQ(set("send_limit", text, options), "") << text;
    EXPECT_EQ(options.send_limit, bytes) << text;
  }
  options.send_limit = kMinMemoryLimit;
  for (const char* const text : {"", "much", "1MM", "-4M", "2097151", "9999999999G", "nan", "1e30",
                                 "9223372036854775808", "M", "4 5"}) {
    EXPECT_THAT(set("send_limit", text, options), HasSubstr("is not a size of 2 MiB or more"));
    EXPECT_EQ(options.send_limit, kMinMemoryLimit) << text;
  }
}

TEST(OptionTable, TimesAreReadAsPeopleWriteThem) {
  DeviceOptions options;
  for (const auto& [text, time] :
       {std::pair<const char*, std::chrono::nanoseconds>{"20us", std::chrono::microseconds(20)},
        {"2e-05", std::chrono::microseconds(20)},
        {"300 ms", std::chrono::milliseconds(300)},
        {"2.5", std::chrono::milliseconds(2500)},
        {"5S", std::chrono::seconds(5)},
        {"10min", std::chrono::minutes(10)},
        {"1.5 h", std::chrono::minutes(90)},
        {"7ns", std::chrono::nanoseconds(7)},
        {"1e300", kForever}}) {
    EXPECT_EQ(set("spin", text, options), "") << text;
    EXPECT_EQ(options.spin, time) << text;
  }
  for (const char* const text : {"", "soon", "-1", "nan", "inf", "5m", "s", "h"}) {
    EXPECT_NE(set("spin", text, options), "") << text;
    EXPECT_EQ(options.spin, kForever) << text;
  }
}

TEST(OptionTable, OtherTextsAreRead) {
  DeviceOptions options;
  EXPECT_EQ(set("listen", "[::1]:7777", options), "");
  EXPECT_EQ(options.listen, (Endpoint{"::1", 7777}));
  EXPECT_EQ(set("port", "7778", options), "");
  EXPECT_EQ(options.listen, (Endpoint{"::1", 7778}));
  EXPECT_EQ(set("port_range", "7000 - 7099", options), "");
  EXPECT_EQ(options.port_range, (PortRange{7000, 7099}));
  EXPECT_EQ(set("fabrics", "tcp, shm", options), "");
  EXPECT_EQ(options.fabrics, (std::vector{FabricKind::kTcp, FabricKind::kShm}));
  EXPECT_EQ(set("huge_pages", "off", options), "");
  EXPECT_EQ(options.huge_pages, HugePages::kOff);
  EXPECT_EQ(set("prefault", "No", options), "");
  EXPECT_FALSE(options.prefault);
  EXPECT_EQ(set("verbs.relaxed_ordering", "off", options), "");
  EXPECT_EQ(options.verbs.relaxed_ordering, false);
  EXPECT_EQ(set("token", "none", options), "");
  EXPECT_EQ(options.token.kind(), Token::Kind::kNone);
  EXPECT_EQ(set("name", std::string(255, 'n'), options), "");
  EXPECT_EQ(options.name.size(), 255U);
  for (const auto& [name, text] : {std::pair<const char*, std::string>{"listen", "nowhere"},
                                   {"port", "65536"},
                                   {"port_range", "7000"},
                                   {"port_range", "-7000"},
                                   {"port_range", "7001-7000"},
                                   {"port_range", "0-7000"},
                                   {"fabrics", "shm,,tcp"},
                                   {"fabrics", "pigeon"},
                                   {"huge_pages", "enormous"},
                                   {"prefault", "maybe"},
                                   {"lanes", "0x4"},
                                   {"lanes", "4K"},
                                   {"name", std::string(256, 'n')}}) {
    EXPECT_THAT(set(name, text, options), HasSubstr("is not ")) << name << "=" << text;
  }
}

TEST(OptionTable, TheEnvironmentSetsTheOptionsOfItsPlace) {
  const Variable limit("FARWRITE_SEND_LIMIT", "64M");
  const Variable credits("FARWRITE_VERBS_RECEIVE_CREDITS", "32");
  const Variable unset("FARWRITE_ENCRYPT", "");
  const Variable lanes("FARWRITE_LANES", "4");
  const Variable token("FARWRITE_TOKEN", "secret");
  const Variable node("FARWRITE_NUMA_NODE", "-1");
  DeviceOptions plugin;
  ASSERT_TRUE(read_environment(kInPlugin, plugin).ok());
  EXPECT_EQ(plugin.send_limit, std::uint64_t{64} << 20);
  EXPECT_EQ(plugin.verbs.receive_credits, 32U);
  EXPECT_FALSE(plugin.encrypt);
  EXPECT_EQ(plugin.numa_node, -1);
  EXPECT_EQ(plugin.lanes, 1U) << "the plug-in has its own number of lanes";
  DeviceOptions grpc;
  ASSERT_TRUE(read_environment(kInGrpc, grpc).ok());
  EXPECT_EQ(grpc.send_limit, DeviceOptions().send_limit);
  EXPECT_EQ(grpc.numa_node, kNodeOfAdapter);
  EXPECT_EQ(grpc.token.secret(), "secret");
}

TEST(OptionTable, AVariableThatCannotBeReadIsNamed) {
  const Variable port("FARWRITE_DATA_PORT", "70000");
  DeviceOptions options;
  const Status read = read_environment(kInPlugin, options);
  EXPECT_EQ(read.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(read.message(), HasSubstr("FARWRITE_DATA_PORT=70000 is not a whole number from 0"));
  EXPECT_EQ(options.tcp.data_port, 0);
}

TEST(OptionTable, AVariableOfGrpcHasTheDefaultOfItsRow) {
  std::uint32_t spin = 0;
  std::vector<FabricKind> fabrics;
  ASSERT_TRUE(read_variable("FARWRITE_GRPC_SPIN_US", &spin).ok());
  ASSERT_TRUE(read_variable("FARWRITE_GRPC_FABRICS", &fabrics).ok());
  EXPECT_EQ(spin, 50U);
  EXPECT_EQ(fabrics, (std::vector{FabricKind::kShm, FabricKind::kVerbs}));
  const Variable text("FARWRITE_GRPC_SPIN_US", "10001");
  const Status read = read_variable("FARWRITE_GRPC_SPIN_US", &spin);
  EXPECT_THAT(read.message(), HasSubstr("FARWRITE_GRPC_SPIN_US=10001 is not a whole number from"));
}

TEST(OptionTable, EveryRowThatIsNoKeywordHasADefaultOfItsKind) {
  for (const std::span<const Option> table : {plugin_options(), grpc_options()}) {
    for (const Option& option : table) {
      EXPECT_FALSE(option.default_text.empty()) << option.variable;
      EXPECT_EQ(option.kind == OptionKind::kChoice, !option.choices.empty()) << option.variable;
      if (option.kind != OptionKind::kChoice) continue;
      std::string_view word;
      EXPECT_EQ(parse(option, option.default_text, &word), "") << option.variable;
    }
  }
}

TEST(OptionTable, AWordIsOneOfItsRow) {
  std::string_view word;
  ASSERT_TRUE(read_variable("FARWRITE_TF_ALLOCATION", &word).ok());
  EXPECT_EQ(word, "unified");
  ASSERT_TRUE(read_variable("FARWRITE_TF_LANDING", &word).ok());
  EXPECT_EQ(word, "on");
  const Variable landing("FARWRITE_TF_LANDING", "No");
  ASSERT_TRUE(read_variable("FARWRITE_TF_LANDING", &word).ok());
  EXPECT_EQ(word, "off");
  const Variable allocation("FARWRITE_TF_ALLOCATION", "traced ");
  ASSERT_TRUE(read_variable("FARWRITE_TF_ALLOCATION", &word).ok());
  EXPECT_EQ(word, "traced");
  const Variable bad("FARWRITE_TF_TRACING", "never");
  const Status read = read_variable("FARWRITE_TF_TRACING", &word);
  EXPECT_EQ(read.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(read.message(), HasSubstr("FARWRITE_TF_TRACING=never is not auto or always"));
  EXPECT_EQ(word, "traced");
}

TEST(OptionTable, AVariableWithoutARowIsRefused) {
  std::string_view word;
  const Status read = read_variable("WEATHER", &word);
  EXPECT_EQ(read.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(read.message(), HasSubstr("WEATHER has no row"));
}

}  // namespace
}  // namespace farwrite::core
