// The life of connections over the double's connection manager.
#include "unit/software_rnic_fixture.h"
#include "verbs_double/software_rnic.h"

namespace farwrite::verbs_double {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SoftwareConnectionTest : public ::testing::Test {
 protected:
  void TearDown() override {
    client_.close();
    server_.close();
    EXPECT_THAT(rnic_.leaks(), IsEmpty());
    EXPECT_THAT(rnic_.complaints(), IsEmpty());
  }

  static WireOptions impatient() {
    WireOptions made;
    made.connect_timeout = made.disconnect_timeout = std::chrono::milliseconds(10);
    return made;
  }

  SoftwareRnic rnic_{RnicOptions{}, impatient()};
  Side client_{rnic_};
  Side server_{rnic_};
};

TEST_F(SoftwareConnectionTest, TellsBothWhatTheyNeed) {
  const std::uint16_t port = server_.listen("0.0.0.0");
  EXPECT_NE(port, 0);
  EXPECT_EQ(server_.listener->verbs, nullptr);
  client_.resolve("127.0.0.1", port);
  EXPECT_EQ(client_.id->verbs, client_.context);
  EXPECT_EQ(client_.id->port_num, 1);
  rdma_conn_param asks = Side::parameters("0123456789");
  asks.responder_resources = 3;
  asks.initiator_depth = 2;
  server_.listener->context = this;
  ASSERT_EQ(rnic_.connect(client_.id, &asks), 0);
  const SeenEvent request = server_.event();
  ASSERT_EQ(request.type, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.data, "0123456789" + std::string(46, '\0'));
  EXPECT_EQ(request.param.responder_resources, 2);
  EXPECT_EQ(request.param.initiator_depth, 3);
  server_.id = request.id;
  EXPECT_EQ(server_.id->context, this);
  EXPECT_EQ(server_.id->verbs, server_.context);
  EXPECT_TRUE(same_host(server_.id->route.addr.src_addr, client_.id->route.addr.dst_addr));
  EXPECT_EQ(port_of(server_.id->route.addr.dst_addr), rnic_.local_port(client_.id));
  server_.make_pair();
  EXPECT_EQ(server_.pair_state(), IBV_QPS_INIT);
  ASSERT_EQ(server_.post_receive(), 0);  // before anything can arrive
  rdma_conn_param answers = Side::parameters();
  ASSERT_EQ(rnic_.accept(server_.id, &answers), 0);
  EXPECT_EQ(server_.pair_state(), IBV_QPS_RTS);
  EXPECT_EQ(client_.pair_state(), IBV_QPS_INIT);  // until it fetches the answer
  EXPECT_FALSE(readable(server_.events->fd, 0));
  client_.expect_event(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(client_.pair_state(), IBV_QPS_RTS);
  server_.expect_event(RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(SoftwareConnectionTest, ASendOfTheAcceptorWaitsForTheOther) {
  const std::uint16_t port = server_.listen();
  client_.resolve("127.0.0.1", port);
  Buffer& into = client_.buffer(8);
  ASSERT_EQ(client_.post_receive(&into, 3), 0);
  rdma_conn_param parameters = Side::parameters();
  ASSERT_EQ(rnic_.connect(client_.id, &parameters), 0);
  server_.id = server_.event().id;
  server_.make_pair();
  ASSERT_EQ(rnic_.accept(server_.id, &parameters), 0);
  Buffer& from = server_.buffer(8);
  ASSERT_EQ(server_.post(IBV_WR_SEND, from, 8, nullptr, 4), 0);
  client_.expect_event(RDMA_CM_EVENT_ESTABLISHED);
  client_.expect_completion(IBV_WC_SUCCESS, 3);
  server_.expect_completion(IBV_WC_SUCCESS, 4);
}

TEST_F(SoftwareConnectionTest, NobodyListens) {
  client_.resolve("127.0.0.1", 9);
  rdma_conn_param parameters = Side::parameters();
  ASSERT_EQ(rnic_.connect(client_.id, &parameters), 0);
  client_.expect_event(RDMA_CM_EVENT_REJECTED, 8);
  EXPECT_EQ(client_.pair_state(), IBV_QPS_ERR);
}

TEST_F(SoftwareConnectionTest, Reject) {
  client_.resolve("127.0.0.1", server_.listen());
  rdma_conn_param parameters = Side::parameters();
  ASSERT_EQ(rnic_.connect(client_.id, &parameters), 0);
  server_.id = server_.event().id;
  ASSERT_EQ(rnic_.reject(server_.id), 0);
  client_.expect_event(RDMA_CM_EVENT_REJECTED, 28);
}

TEST_F(SoftwareConnectionTest, ListenerThatGoesRefusesWhoWaits) {
  client_.resolve("127.0.0.1", server_.listen());
  rdma_conn_param parameters = Side::parameters();
  ASSERT_EQ(rnic_.connect(client_.id, &parameters), 0);
  ASSERT_EQ(rnic_.destroy_id(std::exchange(server_.listener, nullptr)), 0);
  client_.expect_event(RDMA_CM_EVENT_REJECTED, 28);
}

TEST_F(SoftwareConnectionTest, Backlog) {
  const std::uint16_t port = server_.listen("127.0.0.1", 1);
  rdma_conn_param parameters = Side::parameters();
  client_.resolve("127.0.0.1", port);
  ASSERT_EQ(rnic_.connect(client_.id, &parameters), 0);
  Side other(rnic_);
  other.resolve("127.0.0.1", port);
  ASSERT_EQ(rnic_.connect(other.id, &parameters), 0);
  other.expect_event(RDMA_CM_EVENT_REJECTED, 8);
  server_.id = server_.event().id;
  ASSERT_EQ(rnic_.reject(server_.id), 0);
  client_.expect_event(RDMA_CM_EVENT_REJECTED, 28);
}

TEST_F(SoftwareConnectionTest, WhoAskedGoesBeforeTheAnswer) {
  client_.resolve("127.0.0.1", server_.listen());
  rdma_conn_param parameters = Side::parameters();
  ASSERT_EQ(rnic_.connect(client_.id, &parameters), 0);
  server_.id = server_.event().id;
  server_.make_pair();
  ASSERT_EQ(rnic_.accept(server_.id, &parameters), 0);
  client_.close_id();
  server_.expect_event(RDMA_CM_EVENT_REJECTED, 4);
}

TEST_F(SoftwareConnectionTest, DestroyingTellsThePeer) {
  connect_sides(client_, server_);
  client_.close_id();
  server_.expect_event(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(SoftwareConnectionTest, GoodbyeWithoutAnAnswerEndsByItself) {
  connect_sides(client_, server_);
  ASSERT_EQ(rnic_.disconnect(client_.id), 0);
  EXPECT_EQ(rnic_.disconnect(client_.id), EINVAL);
  client_.expect_event(RDMA_CM_EVENT_DISCONNECTED);  // after disconnect_timeout
  server_.expect_event(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(SoftwareConnectionTest, AddressesOfNobody) {
  ASSERT_EQ(rnic_.create_id(client_.events, &client_.id), 0);
  sockaddr_in nobody = address_of("10.9.9.9", 80);
  EXPECT_EQ(rnic_.bind_addr(client_.id, generic(nobody)), ENODEV);
  ASSERT_EQ(rnic_.resolve_addr(client_.id, nullptr, generic(nobody), 100), 0);
  client_.expect_event(RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
  sockaddr_in taken = address_of("127.0.0.1", server_.listen());
  EXPECT_EQ(rnic_.bind_addr(client_.id, generic(taken)), EADDRINUSE);
}

TEST_F(SoftwareConnectionTest, WrongOrder) {
  rdma_conn_param parameters = Side::parameters();
  ASSERT_EQ(rnic_.create_id(client_.events, &client_.id), 0);
  EXPECT_EQ(rnic_.resolve_route(client_.id, 100), EINVAL);
  EXPECT_EQ(rnic_.connect(client_.id, &parameters), EINVAL);
  EXPECT_EQ(rnic_.listen(client_.id, 1), EINVAL);
  EXPECT_EQ(rnic_.accept(client_.id, &parameters), EINVAL);
  EXPECT_EQ(rnic_.disconnect(client_.id), EINVAL);
}

TEST_F(SoftwareConnectionTest, TooMuchIsRefused) {
  client_.resolve("127.0.0.1", 9);
  const std::string data(57, 'x');
  rdma_conn_param parameters = Side::parameters(data);
  EXPECT_EQ(rnic_.connect(client_.id, &parameters), EINVAL);
  parameters = Side::parameters();
  parameters.initiator_depth = 17;
  EXPECT_EQ(rnic_.connect(client_.id, &parameters), EINVAL);
}

TEST_F(SoftwareConnectionTest, Unreachable) {
  client_.resolve("127.0.0.1", server_.listen());
  rnic_.break_link();
  rdma_conn_param parameters = Side::parameters();
  ASSERT_EQ(rnic_.connect(client_.id, &parameters), 0);
  client_.expect_event(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

TEST_F(SoftwareConnectionTest, MigratedIdsTakeTheirEventsAlong) {
  connect_sides(client_, server_);
  rdma_event_channel* other = rnic_.create_event_channel();
  ASSERT_EQ(rnic_.disconnect(client_.id), 0);  // waits in the old channel
  ASSERT_EQ(rnic_.migrate_id(server_.id, other), 0);
  EXPECT_EQ(server_.id->channel, other);
  EXPECT_TRUE(readable(other->fd, 0));
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rnic_.get_cm_event(other, &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_DISCONNECTED);
  rnic_.ack_cm_event(event);
  rdma_cm_event* none = nullptr;
  EXPECT_EQ(rnic_.get_cm_event(server_.events, &none), EAGAIN);
  server_.close_id();
  rnic_.destroy_event_channel(other);
}

TEST(SoftwareConnectionMisuse, UnacknowledgedEvents) {
  SoftwareRnic rnic;
  {
    Side client(rnic);
    ASSERT_EQ(rnic.create_id(client.events, &client.id), 0);
    sockaddr_in to = address_of("127.0.0.1", 9);
    ASSERT_EQ(rnic.resolve_addr(client.id, nullptr, generic(to), 100), 0);
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rnic.get_cm_event(client.events, &event), 0);
    client.close_id();
    rnic.ack_cm_event(event);
  }
  EXPECT_THAT(rnic.complaints(),
              ElementsAre("destroy_id before all its events are acknowledged waits for ever"));
}

TEST(SoftwareDevices, AreWhatTheOptionsSay) {
  RnicOptions roce;
  roce.name = "rxe7";
  roce.ports[0].address = "10.9.0.1";
  RnicOptions infiniband;
  infiniband.name = "mlx5_3";
  infiniband.transport = Transport::kInfiniBand;
  infiniband.ports = {{.address = "", .state = IBV_PORT_DOWN},
                      {.address = "fd00::7", .active_mtu = IBV_MTU_2048, .max_msg_sz = 1 << 30}};
  SoftwareRnic rnic(std::vector<RnicOptions>{roce, infiniband});
  EXPECT_EQ(rnic.addresses().size(), 2u);
  int count = 0;
  ibv_context** devices = rnic.get_devices(&count);
  ASSERT_EQ(count, 2);
  EXPECT_EQ(devices[2], nullptr);
  EXPECT_STREQ(rnic.device_name(devices[1]), "mlx5_3");
  ibv_port_attr port{};
  ASSERT_EQ(rnic.query_port(devices[1], 2, &port), 0);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_EQ(port.active_mtu, IBV_MTU_2048);
  EXPECT_EQ(rnic.query_port(devices[1], 3, &port), EINVAL);
  ibv_gid_entry gid{};
  ASSERT_EQ(rnic.query_gid(devices[0], 1, 3, &gid), 0);
  EXPECT_EQ(gid.gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_ROCE_V2));
  EXPECT_EQ(gid.gid.raw[12], 10);
  EXPECT_EQ(rnic.query_gid(devices[0], 1, 4, &gid), EINVAL);
  ibv_device_attr limits{};
  ASSERT_EQ(rnic.query_device(devices[1], &limits), 0);
  EXPECT_EQ(limits.phys_port_cnt, 2);
  rnic.free_devices(devices);
  EXPECT_THAT(rnic.leaks(), IsEmpty());
}

}  // namespace
}  // namespace farwrite::verbs_double
