// What goes wrong on an adapter goes wrong on the double, with the same status.
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "unit/software_rnic_fixture.h"
#include "verbs_double/software_rnic.h"

namespace farwrite::verbs_double {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SoftwareRnicErrorTest : public ::testing::Test {
 protected:
  explicit SoftwareRnicErrorTest(const RnicOptions& device = {}, const WireOptions& wire = {})
      : rnic_(device, wire) {}

  void TearDown() override {
    client_.close();
    server_.close();
    EXPECT_THAT(rnic_.leaks(), IsEmpty());
    EXPECT_THAT(rnic_.complaints(), IsEmpty());
  }
  // The first request fails with this; what comes behind it is flushed, signalled or not.
  void expect_failure(ibv_wc_status status) {
    client_.expect_completion(status, 1);
    EXPECT_EQ(client_.pair_state(), IBV_QPS_ERR);
    Buffer& any = client_.buffer(8);
    ASSERT_EQ(client_.post(IBV_WR_SEND, any, 8, nullptr, 2, 0), 0);
    client_.expect_completion(IBV_WC_WR_FLUSH_ERR, 2);
  }
  void expect_server_in_error() {
    while (server_.pair_state() != IBV_QPS_ERR) std::this_thread::yield();
  }
  ibv_event_type async_event() {
    ibv_async_event event{};
    EXPECT_TRUE(readable(client_.context->async_fd));
    EXPECT_EQ(rnic_.get_async_event(client_.context, &event), 0);
    rnic_.ack_async_event(&event);
    return event.event_type;
  }

  SoftwareRnic rnic_;
  Side client_{rnic_};
  Side server_{rnic_};
};

TEST_F(SoftwareRnicErrorTest, RemoteKeyOfNothing) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  Buffer& to = server_.buffer(8);
  ASSERT_EQ(rnic_.dereg_mr(to.region), 0);  // stale from here on
  ibv_mr gone{};
  gone.rkey = 0x80000000 | 77;
  to.region = &gone;
  ASSERT_EQ(server_.post_receive(nullptr, 5), 0);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 1), 0);
  expect_failure(IBV_WC_REM_ACCESS_ERR);
  server_.expect_completion(IBV_WC_WR_FLUSH_ERR, 5);
  EXPECT_EQ(async_event(), IBV_EVENT_QP_ACCESS_ERR);
  to.region = nullptr;
}

TEST_F(SoftwareRnicErrorTest, RemoteBounds) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(20'000, kAllAccess, 1);
  Buffer& less = server_.buffer(19'999);
  EXPECT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 20'000, &less, 1), 0);
  expect_failure(IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(less.bytes[0], std::byte{0});
  expect_server_in_error();
}

TEST_F(SoftwareRnicErrorTest, RemoteAccess) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  Buffer& to = server_.buffer(8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 1), 0);
  expect_failure(IBV_WC_REM_ACCESS_ERR);
  expect_server_in_error();
}

TEST_F(SoftwareRnicErrorTest, KeyOfAnotherProtectionDomain) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  Buffer& own = client_.buffer(8);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &own, 1), 0);
  expect_failure(IBV_WC_REM_ACCESS_ERR);
}

TEST_F(SoftwareRnicErrorTest, LocalKey) {
  connect_sides(client_, server_);
  Buffer& foreign = server_.buffer(8);
  Buffer& to = server_.buffer(8);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, foreign, 8, &to, 1, 0), 0);
  expect_failure(IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(server_.pair_state(), IBV_QPS_RTS);
}

TEST_F(SoftwareRnicErrorTest, ReadIntoWhatIsNotWritable) {
  connect_sides(client_, server_);
  Buffer& into = client_.buffer(8, 0);
  Buffer& there = server_.buffer(8);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_READ, into, 8, &there, 1), 0);
  expect_failure(IBV_WC_LOC_PROT_ERR);
}

TEST_F(SoftwareRnicErrorTest, NothingNeedsNoKey) {
  connect_sides(client_, server_);
  Buffer none;
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, none, 0, nullptr, 1), 0);
  client_.expect_completion(IBV_WC_SUCCESS, 1);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_READ, none, 0, nullptr, 2), 0);
  client_.expect_completion(IBV_WC_SUCCESS, 2);
}

TEST_F(SoftwareRnicErrorTest, MessageLongerThanThePortAllows) {
  connect_sides(client_, server_);
  constexpr std::size_t kBytes = (8 << 20) + 1;
  Buffer& from = client_.buffer(kBytes);
  Buffer& to = server_.buffer(kBytes);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, kBytes, &to, 1), 0);
  expect_failure(IBV_WC_LOC_LEN_ERR);
}

TEST_F(SoftwareRnicErrorTest, SendLongerThanItsReceive) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(9);
  Buffer& into = server_.buffer(8);
  ASSERT_EQ(server_.post_receive(&into, 5), 0);
  ASSERT_EQ(client_.post(IBV_WR_SEND, from, 9, nullptr, 1), 0);
  expect_failure(IBV_WC_REM_INV_REQ_ERR);
  server_.expect_completion(IBV_WC_LOC_LEN_ERR, 5);
  expect_server_in_error();
}

TEST_F(SoftwareRnicErrorTest, NoReceiveIsWaitedFor) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  ASSERT_EQ(client_.post(IBV_WR_SEND, from, 8, nullptr, 1), 0);
  while (rnic_.rnr_count() < 10) std::this_thread::yield();
  Buffer& into = server_.buffer(8);
  ASSERT_EQ(server_.post_receive(&into, 5), 0);
  client_.expect_completion(IBV_WC_SUCCESS, 1);
  server_.expect_completion(IBV_WC_SUCCESS, 5);
}

TEST_F(SoftwareRnicErrorTest, NoReceiveForTooLong) {
  connect_sides(client_, server_, "127.0.0.1", 3);
  Buffer& from = client_.buffer(8);
  Buffer& to = server_.buffer(8);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE_WITH_IMM, from, 8, &to, 1), 0);
  expect_failure(IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(rnic_.rnr_count(), 4u);
}

TEST_F(SoftwareRnicErrorTest, ReceiveSlotsAreLimited) {
  connect_sides(client_, server_);
  for (int i = 0; i < 16; ++i) ASSERT_EQ(server_.post_receive(), 0);
  EXPECT_EQ(server_.post_receive(), ENOMEM);
}

TEST_F(SoftwareRnicErrorTest, FlushComesInOrderAndForAll) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  Buffer& to = server_.buffer(8);
  rnic_.pause();
  for (std::uint64_t i = 0; i < 5; ++i) {
    const unsigned flags = i % 2 == 0 ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0;
    ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, i, flags), 0);
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(rnic_.modify_qp(client_.id->qp, &attributes, IBV_QP_STATE), 0);
  rnic_.resume();
  for (std::uint64_t i = 0; i < 5; ++i) client_.expect_completion(IBV_WC_WR_FLUSH_ERR, i);
}

TEST_F(SoftwareRnicErrorTest, OrderedFailures) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  Buffer& to = server_.buffer(8, kAllAccess, 1);
  rnic_.fail_next(IBV_WC_REM_OP_ERR, 0x77, client_.id->qp, 1);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 0), 0);
  client_.expect_completion(IBV_WC_SUCCESS, 0);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 1), 0);
  const ibv_wc failed = client_.completion();
  EXPECT_EQ(failed.status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(failed.vendor_err, 0x77u);
  EXPECT_EQ(failed.wr_id, 1u);
}

TEST_F(SoftwareRnicErrorTest, BrokenLink) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  Buffer& to = server_.buffer(8);
  rnic_.break_link();
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 1), 0);
  expect_failure(IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SoftwareRnicErrorTest, PeerThatIsGone) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  Buffer& to = server_.buffer(8);
  rnic_.destroy_qp(server_.id);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 1), 0);
  expect_failure(IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SoftwareRnicErrorTest, APauseLosesNothing) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8, kAllAccess, 4);
  Buffer& to = server_.buffer(8);
  rnic_.pause();
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 1), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // longer than retry_time
  ibv_wc none{};
  EXPECT_EQ(rnic_.poll_cq(client_.queue, 1, &none), 0);
  EXPECT_EQ(to.bytes[0], std::byte{0});
  rnic_.resume();
  client_.expect_completion(IBV_WC_SUCCESS, 1);
  EXPECT_EQ(to.bytes[0], std::byte{4});
}

TEST_F(SoftwareRnicErrorTest, APairThatIsHeldBack) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8, kAllAccess, 4);
  Buffer& into = server_.buffer(8);
  ASSERT_EQ(server_.post_receive(&into, 5), 0);
  ASSERT_EQ(client_.post_receive(&from, 6), 0);
  rnic_.hold(client_.id->qp);
  ASSERT_EQ(client_.post(IBV_WR_SEND, from, 8, nullptr, 1), 0);
  ASSERT_EQ(server_.post(IBV_WR_SEND, into, 8, nullptr, 2), 0);
  client_.expect_completion(IBV_WC_SUCCESS, 6);
  server_.expect_completion(IBV_WC_SUCCESS, 2);
  ibv_wc none{};
  EXPECT_EQ(rnic_.poll_cq(server_.queue, 1, &none), 0);
  rnic_.release(client_.id->qp);
  client_.expect_completion(IBV_WC_SUCCESS, 1);
  server_.expect_completion(IBV_WC_SUCCESS, 5);
}

TEST_F(SoftwareRnicErrorTest, DeviceThatIsPulledOut) {
  connect_sides(client_, server_);
  ASSERT_EQ(client_.post_receive(nullptr, 5), 0);
  rnic_.remove_device();
  EXPECT_EQ(async_event(), IBV_EVENT_DEVICE_FATAL);
  client_.expect_completion(IBV_WC_WR_FLUSH_ERR, 5);
  client_.expect_event(RDMA_CM_EVENT_DEVICE_REMOVAL);
  server_.expect_event(RDMA_CM_EVENT_DEVICE_REMOVAL);
}

TEST_F(SoftwareRnicErrorTest, Refusals) {
  rnic_.refuse_registration(ENOMEM);
  std::byte bytes[64];
  for (int i = 0; i < 2; ++i) {
    errno = 0;
    EXPECT_EQ(rnic_.reg_mr(client_.domain, bytes, sizeof(bytes), 0), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  rnic_.allow(Call::kRegMr);
  rnic_.refuse(Call::kCreateCq, EPERM, 1, 1);
  ibv_cq* first = rnic_.create_cq(client_.context, 1, nullptr);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(rnic_.create_cq(client_.context, 1, nullptr), nullptr);
  ibv_cq* third = rnic_.create_cq(client_.context, 1, nullptr);
  EXPECT_NE(third, nullptr);
  rnic_.destroy_cq(first);
  rnic_.destroy_cq(third);
}

TEST_F(SoftwareRnicErrorTest, RegistrationChecks) {
  std::byte bytes[64];
  const auto refused_with = [&](void* address, std::size_t length, unsigned access) {
    errno = 0;
    EXPECT_EQ(rnic_.reg_mr(client_.domain, address, length, access), nullptr);
    return errno;
  };
  EXPECT_EQ(refused_with(bytes, 0, 0), EINVAL);
  EXPECT_EQ(refused_with(bytes, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  void* hole = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(hole, 4096);
  EXPECT_EQ(refused_with(hole, 4096, 0), EFAULT);
  ibv_mr* relaxed =
      rnic_.reg_mr(client_.domain, bytes, 64, kAllAccess | IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(relaxed, nullptr);
  EXPECT_EQ(rnic_.registrations_live(), 1u);
  EXPECT_NE(relaxed->lkey, relaxed->rkey);
  EXPECT_EQ(rnic_.dereg_mr(relaxed), 0);
  EXPECT_EQ(rnic_.registrations_live(), 0u);
  EXPECT_EQ(rnic_.registrations_ever(), 1u);
}

// Whatever the moment, memory is still when dereg_mr() returns.
TEST_F(SoftwareRnicErrorTest, DeregistrationWaitsForMovements) {
  connect_sides(client_, server_);
  constexpr std::size_t kBytes = 4 << 20;
  Buffer& from = client_.buffer(kBytes, 0, 1);
  Buffer& to = server_.buffer(kBytes);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, kBytes, &to, 1), 0);
  ibv_mr* region = std::exchange(to.region, nullptr);
  ASSERT_EQ(rnic_.dereg_mr(region), 0);
  to.bytes = {};  // the sanitizers' part of the test
  const ibv_wc got = client_.completion();
  EXPECT_TRUE(got.status == IBV_WC_REM_ACCESS_ERR || got.status == IBV_WC_SUCCESS);
}

TEST_F(SoftwareRnicErrorTest, AsynchronousEvents) {
  ::fcntl(client_.context->async_fd, F_SETFL, O_NONBLOCK);
  ibv_async_event event{};
  EXPECT_EQ(rnic_.get_async_event(client_.context, &event), EAGAIN);
  ibv_port_attr port{};
  rnic_.raise_port_event(IBV_EVENT_PORT_ERR);
  ASSERT_EQ(rnic_.query_port(client_.context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  rnic_.raise_port_event(IBV_EVENT_PORT_ACTIVE);
  ASSERT_EQ(rnic_.query_port(client_.context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  rnic_.raise_device_event(IBV_EVENT_DEVICE_FATAL);
  EXPECT_EQ(async_event(), IBV_EVENT_PORT_ERR);
  EXPECT_EQ(async_event(), IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(async_event(), IBV_EVENT_DEVICE_FATAL);
  connect_sides(client_, server_);
  ASSERT_EQ(client_.post_receive(nullptr, 8), 0);
  rnic_.raise_pair_event(IBV_EVENT_QP_FATAL, client_.id->qp);
  EXPECT_EQ(async_event(), IBV_EVENT_QP_FATAL);
  client_.expect_completion(IBV_WC_WR_FLUSH_ERR, 8);
}

TEST(SoftwareRnicMisuse, IsNoticed) {
  SoftwareRnic rnic;
  {
    Side client(rnic, {.queue_entries = 2});
    Side server(rnic);
    connect_sides(client, server);
    EXPECT_EQ(rnic.destroy_cq(client.queue), EBUSY);
    Buffer& from = client.buffer(8);
    Buffer& to = server.buffer(8);
    EXPECT_EQ(rnic.dealloc_pd(client.domain), EBUSY);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(client.post(IBV_WR_RDMA_WRITE, from, 8, &to), 0);
    while (rnic.overruns() == 0) std::this_thread::yield();
    EXPECT_THAT(rnic.leaks(), testing::Contains("2 queue pairs"));
  }
  EXPECT_THAT(rnic.complaints(), ElementsAre("destroy_cq of a queue in use",
                                             "dealloc_pd of a protection domain in use",
                                             "a completion queue of 2 entries overran"));
  EXPECT_THAT(rnic.leaks(), IsEmpty());
}

class SoftwareIwarpTest : public SoftwareRnicErrorTest {
 protected:
  static RnicOptions device() {
    RnicOptions made;
    made.transport = Transport::kIwarp;
    made.supports_immediate = false;
    made.supports_atomics = false;
    made.completes_early = true;
    return made;
  }
  SoftwareIwarpTest() : SoftwareRnicErrorTest(device()) {}
};

TEST_F(SoftwareIwarpTest, HasNoImmediateDataAndNoAtomics) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  Buffer& to = server_.buffer(8);
  EXPECT_EQ(client_.post(IBV_WR_RDMA_WRITE_WITH_IMM, from, 8, &to), EINVAL);
  EXPECT_EQ(client_.post(IBV_WR_SEND_WITH_IMM, from, 8, &to), EINVAL);
  EXPECT_EQ(client_.post(IBV_WR_ATOMIC_FETCH_AND_ADD, from, 8, &to), EINVAL);
  EXPECT_EQ(client_.context->device->transport_type, IBV_TRANSPORT_IWARP);
}

TEST_F(SoftwareIwarpTest, WritesCompleteBeforeTheyLandAndReadsFlushThem) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(1 << 20, 0, 1);
  Buffer& to = server_.buffer(1 << 20);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 1 << 20, &to, 1), 0);
  client_.expect_completion(IBV_WC_SUCCESS, 1);
  std::fill(from.bytes.begin(), from.bytes.end(), std::byte{2});  // it is ours again
  Buffer& back = client_.buffer(8);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_READ, back, 8, &to, 2), 0);
  client_.expect_completion(IBV_WC_SUCCESS, 2);
  EXPECT_EQ(to.bytes.back(), std::byte{1});
  EXPECT_EQ(back.bytes[0], std::byte{1});
}

TEST_F(SoftwareIwarpTest, AnErrorEndsTheConnectionForBoth) {
  connect_sides(client_, server_);
  ASSERT_EQ(server_.post_receive(nullptr, 5), 0);
  Buffer& foreign = server_.buffer(8);
  Buffer& to = server_.buffer(8);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, foreign, 8, &to, 1), 0);
  client_.expect_completion(IBV_WC_LOC_PROT_ERR, 1);
  server_.expect_completion(IBV_WC_WR_FLUSH_ERR, 5);
  client_.expect_event(RDMA_CM_EVENT_DISCONNECTED);
  server_.expect_event(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(SoftwareIwarpTest, APairThatGoesEndsTheConnectionForBoth) {
  connect_sides(client_, server_);
  ASSERT_EQ(server_.post_receive(nullptr, 5), 0);
  rnic_.destroy_qp(client_.id);
  server_.expect_completion(IBV_WC_WR_FLUSH_ERR, 5);
  server_.expect_event(RDMA_CM_EVENT_DISCONNECTED);
}

// Who reads before the notification sees half a write, wherever no order is promised.
TEST(SoftwareRnicOrder, RelaxedOrderingTakesThePromiseBack) {
  for (const bool relaxed : {false, true}) {
    RnicOptions device;
    device.data_in_order = true;
    device.ports[0].active_mtu = IBV_MTU_256;
    WireOptions wire;
    wire.shuffle_within_write = true;
    wire.max_delay = std::chrono::microseconds(100);
    SoftwareRnic rnic(device, wire);
    Side client(rnic);
    Side server(rnic);
    connect_sides(client, server);
    constexpr std::size_t kBytes = 64 << 10;
    Buffer& from = client.buffer(kBytes, 0, 1);
    const unsigned order = relaxed ? static_cast<unsigned>(IBV_ACCESS_RELAXED_ORDERING) : 0;
    Buffer& to = server.buffer(kBytes, kAllAccess | order);
    auto* words = reinterpret_cast<std::uint64_t*>(to.bytes.data());
    const auto load = [&](std::size_t packet) {  // its last word, which is the one stored last
      return std::atomic_ref<std::uint64_t>(words[(packet + 1) * 32 - 1]).load();
    };
    bool overtaken = false;
    for (int round = relaxed ? 200 : 5; round > 0 && !overtaken; --round) {
      for (std::size_t word = 31; word < kBytes / 8; word += 32) {
        std::atomic_ref<std::uint64_t>(words[word]).store(0);
      }
      ASSERT_EQ(client.post(IBV_WR_RDMA_WRITE, from, kBytes, &to), 0);
      while (load(kBytes / 256 - 1) == 0) std::this_thread::yield();
      for (std::size_t packet = 0; packet < kBytes / 256; ++packet) {
        overtaken = overtaken || load(packet) == 0;
      }
      client.expect_completion(IBV_WC_SUCCESS, 0);
    }
    EXPECT_EQ(overtaken, relaxed);
  }
}

}  // namespace
}  // namespace farwrite::verbs_double
