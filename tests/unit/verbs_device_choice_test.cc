#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/verbs/device_choice.h"
#include "fabric/verbs/real_library.h"

namespace farwrite::fabric::verbs {
namespace {

using ::testing::HasSubstr;

struct Gid {
  std::string address;  // "" for an empty place
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
};

struct Port {
  ibv_port_state state = IBV_PORT_ACTIVE;
  std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  std::uint8_t speed = 1;
  std::vector<Gid> gids;
  std::vector<std::string> hosts;  // of its network interface
};

sockaddr_storage address_of(const std::string& host) {
  sockaddr_storage address{};
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    address.ss_family = AF_INET;
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr), 1) << host;
    address.ss_family = AF_INET6;
  }
  return address;
}

// A host with these adapters, as far as a choice looks at it.
class Machine : public RealLibrary {
 public:
  struct Adapter {
    std::string name;
    std::vector<Port> ports;
    ibv_transport_type transport = IBV_TRANSPORT_IB;
    ibv_device device{};
    ibv_context context{};
  };

  Machine() : RealLibrary(Functions()) {}
  ~Machine() override { EXPECT_EQ(open_, 0) << "something was left open"; }

  void add(const std::string& name, std::vector<Port> ports,
           ibv_transport_type transport = IBV_TRANSPORT_IB) {
    auto adapter = std::make_unique<Adapter>();
    adapter->name = name;
    adapter->ports = std::move(ports);
    adapter->device.transport_type = transport;
    adapter->context.device = &adapter->device;
    adapters_.push_back(std::move(adapter));
  }
  void add_plain_interface(const std::string& host) { plain_hosts_.push_back(host); }

  ibv_context** get_devices(int* count) override {
    *count = static_cast<int>(adapters_.size());
    if (adapters_.empty()) {
      errno = ENODEV;
      return nullptr;
    }
    ++open_;
    list_.clear();
    for (const auto& adapter : adapters_) list_.push_back(&adapter->context);
    return list_.data();
  }
  void free_devices(ibv_context** /*devices*/) override { --open_; }
  const char* device_name(ibv_context* context) override { return of(context).name.c_str(); }
  std::vector<sockaddr_storage> addresses() override {
    std::vector<sockaddr_storage> found;
    for (const std::string& host : plain_hosts_) found.push_back(address_of(host));
    for (const auto& adapter : adapters_) {
      for (const Port& port : adapter->ports) {
        for (const std::string& host : port.hosts) found.push_back(address_of(host));
      }
    }
    return found;
  }
  int query_device(ibv_context* context, ibv_device_attr* attributes) override {
    attributes->phys_port_cnt = static_cast<std::uint8_t>(of(context).ports.size());
    attributes->max_mr_size = 77;
    return 0;
  }
  int query_port(ibv_context* context, std::uint8_t number, ibv_port_attr* attributes) override {
    const Port& port = of(context).ports.at(number - 1U);
    attributes->state = port.state;
    attributes->link_layer = port.link_layer;
    attributes->active_mtu = IBV_MTU_4096;
    attributes->max_msg_sz = 1U << 30;
    attributes->active_width = 1;
    attributes->active_speed = port.speed;
    attributes->gid_tbl_len = static_cast<int>(port.gids.size());
    return 0;
  }
  int query_gid(ibv_context* context, std::uint32_t port, std::uint32_t index,
                ibv_gid_entry* entry) override {
    const Gid& gid = of(context).ports.at(port - 1).gids.at(index);
    if (gid.address.empty()) return ENODATA;
    const sockaddr_storage address = address_of(gid.address);
    if (address.ss_family == AF_INET) {
      entry->gid.raw[10] = entry->gid.raw[11] = 0xFF;
      std::memcpy(entry->gid.raw + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
    } else {
      std::memcpy(entry->gid.raw, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
    }
    entry->gid_type = gid.type;
    return 0;
  }
  rdma_event_channel* create_event_channel() override {
    ++open_;
    return &channel_;
  }
  void destroy_event_channel(rdma_event_channel* /*channel*/) override { --open_; }
  int create_id(rdma_event_channel* /*channel*/, rdma_cm_id** id) override {
    ++open_;
    *id = new rdma_cm_id{};
    return 0;
  }
  int destroy_id(rdma_cm_id* id) override {
    --open_;
    delete id;
    return 0;
  }
  int bind_addr(rdma_cm_id* id, sockaddr* address) override {
    const std::size_t bytes =
        address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    for (const auto& adapter : adapters_) {
      for (std::size_t port = 0; port < adapter->ports.size(); ++port) {
        for (const std::string& host : adapter->ports[port].hosts) {
          const sockaddr_storage its = address_of(host);
          if (std::memcmp(&its, address, bytes) != 0) continue;
          id->verbs = &adapter->context;
          id->port_num = static_cast<std::uint8_t>(port + 1);
          return 0;
        }
      }
    }
    return ENODEV;
  }

 private:
  static Adapter& of(ibv_context* context) {
    return *reinterpret_cast<Adapter*>(reinterpret_cast<char*>(context) -
                                       offsetof(Adapter, context));
  }
  std::vector<std::unique_ptr<Adapter>> adapters_;
  std::vector<std::string> plain_hosts_;
  std::vector<ibv_context*> list_;
  rdma_event_channel channel_{};
  int open_ = 0;
};

Port roce(const std::string& host) {
  Port port;
  port.gids = {{"fe80::1", IBV_GID_TYPE_ROCE_V1},
               {"fe80::1", IBV_GID_TYPE_ROCE_V2},
               {},
               {host, IBV_GID_TYPE_ROCE_V1},
               {host, IBV_GID_TYPE_ROCE_V2}};
  port.hosts = {host};
  return port;
}

std::vector<std::string> hosts_of(const Result<std::vector<RdmaAddress>>& found) {
  std::vector<std::string> hosts;
  if (!found.ok()) return {found.status().message()};
  for (const RdmaAddress& address : found.value()) hosts.push_back(address.host);
  return hosts;
}

using Hosts = std::vector<std::string>;

TEST(VerbsDeviceChoiceTest, AnAddressNamesDevicePortAndGid) {
  Machine machine;
  machine.add_plain_interface("192.168.1.5");
  machine.add("rxe0", {Port{}, roce("10.9.0.1")});
  const auto found = choose_addresses(machine, {});
  ASSERT_EQ(hosts_of(found), Hosts{"10.9.0.1"});
  const RdmaAddress& address = found.value().front();
  EXPECT_EQ(address.device, "rxe0");
  EXPECT_EQ(address.port, 2);
  EXPECT_EQ(address.gid_index, 4) << "rdma_cm takes RoCE v2 where there is one";
  EXPECT_EQ(address.transport, "RoCE v2");
  EXPECT_EQ(address.mtu, 4096U);
  EXPECT_EQ(address.max_message_bytes, 1U << 30);
  EXPECT_EQ(address.limits.max_mr_size, 77U);
  EXPECT_FALSE(address.iwarp);
  EXPECT_EQ(describe(address), "rxe0 port 2, RoCE v2, GID 4 (10.9.0.1), MTU 4096");
}

TEST(VerbsDeviceChoiceTest, TheBestComesFirst) {
  Machine machine;
  Port old = roce("10.1.0.1");
  old.gids.pop_back();  // RoCE v1 only
  machine.add("a_old", {old});
  Port iwarp;
  iwarp.hosts = {"10.2.0.1"};
  machine.add("b_iwarp", {iwarp}, IBV_TRANSPORT_IWARP);
  Port infiniband;
  infiniband.link_layer = IBV_LINK_LAYER_INFINIBAND;
  infiniband.hosts = {"10.3.0.1"};
  machine.add("c_ib", {infiniband});
  Port mixed = roce("10.4.0.1");
  mixed.gids.push_back({"fd00::4"});
  mixed.hosts = {"fe80::1", "fd00::4", "10.4.0.1"};
  machine.add("d_roce", {mixed});
  Port fast = roce("10.5.0.1");
  fast.speed = 32;
  machine.add("e_fast", {fast});
  const auto found = choose_addresses(machine, {});
  EXPECT_EQ(hosts_of(found), (Hosts{"10.5.0.1", "10.4.0.1", "fd00::4", "fe80::1", "10.3.0.1",
                                    "10.2.0.1", "10.1.0.1"}));
  EXPECT_EQ(describe(found.value().at(4)), "c_ib port 1, InfiniBand (10.3.0.1), MTU 4096");
  EXPECT_EQ(describe(found.value().at(5)), "b_iwarp port 1, iWARP (10.2.0.1), MTU 4096");
  EXPECT_TRUE(found.value().at(5).iwarp);
  EXPECT_EQ(found.value().back().transport, "RoCE v1");
  EXPECT_EQ(found.value().back().gid_index, 3);
}

TEST(VerbsDeviceChoiceTest, OptionsNameDevicePortAndGid) {
  Machine machine;
  machine.add("rxe0", {roce("10.1.0.1"), roce("10.2.0.1")});
  machine.add("rxe1", {roce("10.3.0.1")});
  FabricOptions options;
  options.device = "rxe0";
  EXPECT_EQ(hosts_of(choose_addresses(machine, options)), (Hosts{"10.1.0.1", "10.2.0.1"}));
  options.port = 2;
  EXPECT_EQ(hosts_of(choose_addresses(machine, options)), Hosts{"10.2.0.1"});
  options.gid_index = 4;
  EXPECT_EQ(hosts_of(choose_addresses(machine, options)), Hosts{"10.2.0.1"});
  options.gid_index = 3;
  EXPECT_THAT(choose_addresses(machine, options).status().message(),
              HasSubstr("rxe0: 10.2.0.1 has GID 4, not 3, which was requested"));
  options.port = 3;
  EXPECT_THAT(choose_addresses(machine, options).status().message(),
              HasSubstr("rxe0: has no port 3"));
}

TEST(VerbsDeviceChoiceTest, TheListeningHostOfAnAdapterRestrictsToIt) {
  Machine machine;
  machine.add_plain_interface("192.168.1.5");
  machine.add("rxe0", {roce("10.1.0.1")});
  machine.add("rxe1", {roce("10.2.0.1")});
  FabricOptions options;
  for (const char* const host : {"", "0.0.0.0", "127.0.0.1", "::1", "192.168.1.5"}) {
    options.listen_host = host;
    EXPECT_EQ(hosts_of(choose_addresses(machine, options)), (Hosts{"10.1.0.1", "10.2.0.1"}))
        << host;
  }
  options.listen_host = "10.2.0.1";
  EXPECT_EQ(hosts_of(choose_addresses(machine, options)), Hosts{"10.2.0.1"});
}

TEST(VerbsDeviceChoiceTest, EveryDeviceHasItsReasonWhyNot) {
  Machine machine;
  Port down = roce("10.1.0.1");
  down.state = IBV_PORT_DOWN;
  Port waiting;
  waiting.state = IBV_PORT_INIT;
  waiting.link_layer = IBV_LINK_LAYER_INFINIBAND;
  machine.add("mlx5_0", {down, waiting});
  machine.add("rxe0", {Port{}});
  const auto found = choose_addresses(machine, {});
  EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(
      found.status().message(),
      HasSubstr("(mlx5_0: port 1 is DOWN, port 2 is INIT (no subnet manager has configured it); "
                "rxe0: port 1 has no IP address that is up)"));
}

TEST(VerbsDeviceChoiceTest, ANameThatNoDeviceHasIsAnsweredWithThoseThereAre) {
  Machine machine;
  machine.add("rxe0", {roce("10.1.0.1")});
  machine.add("rxe1", {roce("10.2.0.1")});
  FabricOptions options;
  options.device = "mlx5_0";
  EXPECT_THAT(choose_addresses(machine, options).status().message(),
              HasSubstr("(rxe0: is not mlx5_0, which was requested; rxe1: is not mlx5_0"));
}

TEST(VerbsDeviceChoiceTest, AGidIndexMeansNothingWithoutRoce) {
  Machine machine;
  Port infiniband;
  infiniband.link_layer = IBV_LINK_LAYER_INFINIBAND;
  infiniband.hosts = {"10.3.0.1"};
  machine.add("mlx5_0", {infiniband});
  FabricOptions options;
  options.gid_index = 0;
  EXPECT_THAT(choose_addresses(machine, options).status().message(),
              HasSubstr("mlx5_0: 10.3.0.1 is reached by InfiniBand, where a GID index"));
}

TEST(VerbsDeviceChoiceTest, AHostWithoutAdaptersSaysSo) {
  Machine machine;
  const auto found = choose_addresses(machine, {});
  EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(found.status().message(), HasSubstr("this host has no RDMA device"));
  EXPECT_THAT(found.status().message(), HasSubstr("--device=/dev/infiniband"));
}

}  // namespace
}  // namespace farwrite::fabric::verbs
