#include "device/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "c_handles.h"
#include "farwrite/c_api.h"

namespace farwrite::device {
namespace {

using testing::HasSubstr;
using testing::Not;

ChannelMetrics channel(std::uint64_t number, FabricKind fabric, std::uint64_t writes) {
  ChannelMetrics channel;
  channel.number = number;
  channel.peer = "127.0.0.1:7777";
  channel.fabric = fabric;
  channel.fabric_reason = "same host";
  channel.stats.writes = writes;
  channel.stats.bytes_written = 100 * writes;
  channel.stats.leases_held = 3;
  return channel;
}

TEST(Metrics, ShowEveryChannelByItsOwnLabels) {
  DeviceMetrics metrics;
  metrics.endpoint = "127.0.0.1:1";
  metrics.channels = {channel(1, FabricKind::kShm, 5), channel(2, FabricKind::kShm, 7)};
  const std::string text = to_prometheus(metrics);
  EXPECT_THAT(text, HasSubstr("farwrite_channel_operations_total{device=\"127.0.0.1:1\",channel="
                              "\"2\",peer=\"127.0.0.1:7777\",fabric=\"shm\",operation=\"write\","
                              "direction=\"out\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("farwrite_channel_leases_held{device=\"127.0.0.1:1\",channel=\"1\","
                              "peer=\"127.0.0.1:7777\",fabric=\"shm\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("fabric=\"shm\",state=\"alive\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("fabric=\"shm\",state=\"dead\"} 0\n"));
}

TEST(Metrics, AddUpChannelsThatAreOpenAndThatAreGoneByFabric) {
  DeviceMetrics metrics;
  metrics.channels = {channel(2, FabricKind::kShm, 5), channel(3, FabricKind::kTcp, 1)};
  metrics.gone = {{FabricKind::kShm, channel(1, FabricKind::kShm, 30).stats}};
  const std::string text = to_prometheus(metrics);
  EXPECT_THAT(text, HasSubstr("farwrite_operations_total{device=\"\",fabric=\"shm\",operation="
                              "\"write\",direction=\"out\"} 35\n"));
  EXPECT_THAT(text, HasSubstr("farwrite_bytes_total{device=\"\",fabric=\"tcp\",operation="
                              "\"write\",direction=\"out\"} 100\n"));
}

TEST(Metrics, ShowWhatAdaptersHaveRegistered) {
  DeviceMetrics metrics;
  add_counters(metrics.stats.adapters, AdapterStats{1, 2, 3, 4096, 3'000'000'500, 60, 7});
  add_counters(metrics.stats.adapters, AdapterStats{1, 0, 1, 4096, 100, 40, 0});
  const std::string text = to_prometheus(metrics);
  for (const char* const sample :
       {"segment_registrations_total{device=\"\"} 2\n",
        "on_demand_registrations_total{device=\"\"} 2\n", "registrations{device=\"\"} 4\n",
        "registered_bytes{device=\"\"} 8192\n",
        "registration_seconds_total{device=\"\"} 3.000000600\n",
        "transfers_total{device=\"\"} 100\n", "transfers_registered_total{device=\"\"} 7\n"}) {
    EXPECT_THAT(text, HasSubstr("\nfarwrite_adapter_" + std::string(sample)));
  }
}

TEST(Metrics, GoneChannelsKeepTheirCountersAndHoldNothing) {
  ChannelStats total;
  add_counters(total, channel(1, FabricKind::kShm, 5).stats);
  add_counters(total, channel(2, FabricKind::kShm, 6).stats);
  EXPECT_EQ(total.writes, 11u);
  EXPECT_EQ(total.bytes_written, 1100u);
  EXPECT_EQ(total.leases_held, 0u);
}

TEST(Metrics, EscapeWhatAPeerCallsItself) {
  DeviceMetrics metrics;
  metrics.channels = {channel(1, FabricKind::kShm, 5)};
  metrics.channels[0].peer = "a\"b\\c\nd\xff";
  const std::string text = to_prometheus(metrics);
  EXPECT_THAT(text, HasSubstr(R"(peer="a\"b\\c\nd?")"));
  EXPECT_THAT(text, Not(HasSubstr("\xff")));
}

TEST(Metrics, DescribeEachFamilyOnceAndKeepItTogether) {
  DeviceMetrics metrics;
  metrics.channels = {channel(1, FabricKind::kShm, 5), channel(2, FabricKind::kShm, 7)};
  std::istringstream lines(to_prometheus(metrics));
  std::set<std::string> families;
  std::string family;
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind("# HELP ", 0) == 0) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << line;
    } else if (line.rfind("# TYPE ", 0) == 0) {
      EXPECT_EQ(line.rfind("# TYPE " + family + " ", 0), 0u) << line;
      const bool counter = line.find(" counter") != std::string::npos;
      EXPECT_EQ(counter, family.size() > 6 && family.substr(family.size() - 6) == "_total") << line;
    } else {
      EXPECT_EQ(line.rfind(family + "{", 0), 0u) << line;
    }
  }
  EXPECT_GT(families.size(), 30u);
}

TEST(CAbiMetrics, FillsWhatFitsAndTellsTheWholeLength) {
  fw_device_options options = {};
  options.struct_size = sizeof(options);
  options.fabrics = "shm";
  fw_device* device = nullptr;
  ASSERT_EQ(fw_device_open(&options, &device), nullptr);
  const std::uint64_t length = fw_device_metrics(device, nullptr, 0);
  ASSERT_GT(length, 1000u);
  std::string text(length + 1, 'x');
  EXPECT_EQ(fw_device_metrics(device, text.data(), text.size()), length);
  EXPECT_EQ(text.back(), '\0');
  EXPECT_THAT(text, HasSubstr("farwrite_channels_open{"));
  std::string begin(11, 'x');
  EXPECT_EQ(fw_device_metrics(device, begin.data(), 10), length);
  EXPECT_EQ(begin, std::string("# HELP fa\0x", 11));
  EXPECT_EQ(finish(device, 0), nullptr);
}

}  // namespace
}  // namespace farwrite::device
