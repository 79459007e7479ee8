#include "verbs_double/software_rnic.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "unit/software_rnic_fixture.h"

namespace farwrite::verbs_double {
namespace {

using ::testing::IsEmpty;

class SoftwareRnicTest : public ::testing::Test {
 protected:
  void TearDown() override {
    client_.close();
    server_.close();
    EXPECT_THAT(rnic_.leaks(), IsEmpty());
    EXPECT_THAT(rnic_.complaints(), IsEmpty());
    EXPECT_EQ(rnic_.overruns(), 0);
  }

  SoftwareRnic rnic_;
  Side client_{rnic_};
  Side server_{rnic_};
};

TEST_F(SoftwareRnicTest, EverybodyGetsTheSameContexts) {
  EXPECT_EQ(client_.context, server_.context);
  EXPECT_STREQ(rnic_.device_name(client_.context), "soft0");
}

TEST_F(SoftwareRnicTest, SendsAndAnswers) {
  connect_sides(client_, server_);
  Buffer& ping = client_.buffer(16, kAllAccess, 1);
  Buffer& at_server = server_.buffer(32);
  Buffer& at_client = client_.buffer(32);
  for (std::uint64_t round = 0; round < 50; ++round) {
    ASSERT_EQ(server_.post_receive(&at_server, round), 0);
    ASSERT_EQ(client_.post_receive(&at_client, 1000 + round), 0);
    ASSERT_EQ(client_.post(IBV_WR_SEND, ping, 16, nullptr, 500, 0), 0);
    const ibv_wc got = server_.completion();
    EXPECT_EQ(got.status, IBV_WC_SUCCESS);
    EXPECT_EQ(got.opcode, IBV_WC_RECV);
    EXPECT_EQ(got.wr_id, round);
    EXPECT_EQ(got.byte_len, 16);
    EXPECT_EQ(at_server.bytes[15], std::byte{1});
    EXPECT_EQ(at_server.bytes[16], std::byte{0});
    ASSERT_EQ(server_.post(IBV_WR_SEND_WITH_IMM, at_server, 8, nullptr, 600, IBV_SEND_SIGNALED, 77),
              0);
    const ibv_wc answer = client_.completion();
    EXPECT_EQ(answer.wr_id, 1000 + round);
    EXPECT_NE(answer.wc_flags & IBV_WC_WITH_IMM, 0u);
    EXPECT_EQ(ntohl(answer.imm_data), 77u);
    server_.expect_completion(IBV_WC_SUCCESS, 600);
    if (round % 8 == 7) {  // frees the unsignalled ones
      ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, ping, 0, &at_server, 700), 0);
      client_.expect_completion(IBV_WC_SUCCESS, 700);
    }
  }
  EXPECT_EQ(rnic_.rnr_count(), 0);
}

TEST_F(SoftwareRnicTest, WritesInOrderAndNotifiesLast) {
  connect_sides(client_, server_);
  constexpr std::size_t kBytes = 300'000;
  Buffer& from = client_.buffer(kBytes, 0, 0);
  Buffer& to = server_.buffer(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) from.bytes[i] = static_cast<std::byte>(i * 7);
  ASSERT_EQ(server_.post_receive(nullptr, 9), 0);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, kBytes, &to, 1, 0), 0);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE_WITH_IMM, from, 100, &to, 2, IBV_SEND_SIGNALED, 5), 0);
  const ibv_wc got = server_.completion();
  EXPECT_EQ(got.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(got.wr_id, 9u);
  EXPECT_EQ(got.byte_len, 100u);
  EXPECT_EQ(ntohl(got.imm_data), 5u);
  EXPECT_EQ(from.bytes, to.bytes);
  client_.expect_completion(IBV_WC_SUCCESS, 2);
  EXPECT_EQ(rnic_.posted(IBV_WR_RDMA_WRITE), 1u);
  EXPECT_EQ(rnic_.posted(IBV_WR_RDMA_WRITE_WITH_IMM), 1u);
  EXPECT_EQ(rnic_.signalled(), 1u);
}

TEST_F(SoftwareRnicTest, ReadsBehindItsOwnWrites) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(20'000, 0, 3);
  Buffer& back = client_.buffer(20'000, IBV_ACCESS_LOCAL_WRITE, 0);
  Buffer& there = server_.buffer(20'000);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 20'000, &there, 1, 0), 0);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_READ, back, 20'000, &there, 2), 0);
  const ibv_wc got = client_.completion();
  EXPECT_EQ(got.wr_id, 2u);
  EXPECT_EQ(got.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(back.bytes, from.bytes);
}

TEST_F(SoftwareRnicTest, Atomics) {
  connect_sides(client_, server_);
  Buffer& result = client_.buffer(8);
  Buffer& word = server_.buffer(8);
  const auto value = [](const Buffer& at) {
    std::uint64_t number = 0;
    std::memcpy(&number, at.bytes.data(), sizeof(number));
    return number;
  };
  const auto ask = [&](ibv_wr_opcode opcode, std::uint64_t compare_add, std::uint64_t swap) {
    ibv_sge piece{result.address(), 8, result.region->lkey};
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.atomic.remote_addr = word.address();
    request.wr.atomic.rkey = word.region->rkey;
    request.wr.atomic.compare_add = compare_add;
    request.wr.atomic.swap = swap;
    ASSERT_EQ(client_.post(request), 0);
    client_.expect_completion(IBV_WC_SUCCESS, 0);
  };
  ask(IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0);
  EXPECT_EQ(value(result), 0u);
  ask(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0);
  EXPECT_EQ(value(result), 5u);
  ask(IBV_WR_ATOMIC_CMP_AND_SWP, 6, 100);
  EXPECT_EQ(value(result), 7u);
  ask(IBV_WR_ATOMIC_CMP_AND_SWP, 7, 100);
  EXPECT_EQ(value(word), 100u);
}

TEST_F(SoftwareRnicTest, InlineDataIsTakenAtOnceAndNeedsNoKey) {
  connect_sides(client_, server_);
  Buffer& to = server_.buffer(64);
  Buffer own;  // not registered
  own.bytes.assign(64, std::byte{9});
  rnic_.pause();
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, own, 64, &to, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE),
            0);
  std::fill(own.bytes.begin(), own.bytes.end(), std::byte{1});
  rnic_.resume();
  client_.expect_completion(IBV_WC_SUCCESS, 1);
  EXPECT_EQ(to.bytes[63], std::byte{9});
  own.bytes.resize(65);
  EXPECT_EQ(client_.post(IBV_WR_RDMA_WRITE, own, 65, &to, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE),
            EINVAL);
}

TEST_F(SoftwareRnicTest, OneEventForTheNextCompletionAfterArming) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  Buffer& to = server_.buffer(8);
  const auto write = [&] { ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to), 0); };
  const auto taken = [&] {
    ibv_wc one{};
    while (rnic_.poll_cq(client_.queue, 1, &one) == 0) std::this_thread::yield();
  };
  write();
  taken();  // was not armed
  ibv_cq* which = nullptr;
  EXPECT_EQ(rnic_.get_cq_event(client_.completions, &which), EAGAIN);
  rnic_.req_notify_cq(client_.queue);
  write();
  write();
  taken();
  taken();
  EXPECT_TRUE(readable(client_.completions->fd, 0));
  EXPECT_EQ(rnic_.get_cq_event(client_.completions, &which), 0);
  EXPECT_EQ(which, client_.queue);
  EXPECT_EQ(rnic_.get_cq_event(client_.completions, &which), EAGAIN);
  rnic_.ack_cq_events(client_.queue, 1);
}

TEST_F(SoftwareRnicTest, SlotsComeBackWithPolledCompletionsOnly) {
  connect_sides(client_, server_);
  Buffer& from = client_.buffer(8);
  Buffer& to = server_.buffer(8);
  for (int i = 0; i < 15; ++i) ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 0, 0), 0);
  ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 16), 0);
  EXPECT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 17), ENOMEM);
  client_.expect_completion(IBV_WC_SUCCESS, 16);
  for (int i = 0; i < 16; ++i) ASSERT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 0, 0), 0);
  EXPECT_EQ(client_.post(IBV_WR_RDMA_WRITE, from, 8, &to, 17), ENOMEM);
}

TEST_F(SoftwareRnicTest, DisconnectFlushesAndTells) {
  connect_sides(client_, server_);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(client_.post_receive(nullptr, i), 0);
  ASSERT_EQ(server_.post_receive(nullptr, 40), 0);
  ASSERT_EQ(rnic_.disconnect(client_.id), 0);
  for (std::uint64_t i = 0; i < 3; ++i) client_.expect_completion(IBV_WC_WR_FLUSH_ERR, i);
  server_.expect_event(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(server_.pair_state(), IBV_QPS_RTS);  // its user's business, on RoCE
  ASSERT_EQ(rnic_.disconnect(server_.id), 0);
  server_.expect_completion(IBV_WC_WR_FLUSH_ERR, 40);
  client_.expect_event(RDMA_CM_EVENT_DISCONNECTED);
  client_.expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  Buffer& any = client_.buffer(8);
  ASSERT_EQ(client_.post(IBV_WR_SEND, any, 8, nullptr, 50, 0), 0);  // unsignalled
  client_.expect_completion(IBV_WC_WR_FLUSH_ERR, 50);
}

// Many threads, two pairs of sides, and memory that only the completion hands over.
TEST(SoftwareRnicThreads, CompletionsOrderTheData) {
  RnicOptions device;
  device.ports[0].active_mtu = IBV_MTU_256;
  WireOptions wire;
  wire.seed = 7;
  wire.shuffle_within_write = true;
  wire.max_delay = std::chrono::microseconds(5);
  auto network = SoftwareRnic::make_network();
  SoftwareRnic one(device, wire, network);
  device.ports[0].address = "127.0.0.2";
  SoftwareRnic other(device, wire, network);
  {
    Side client(one);
    Side server(other);
    connect_sides(client, server, "127.0.0.2");
    constexpr std::size_t kBytes = 4096;
    constexpr int kRounds = 60;
    Buffer& from = client.buffer(kBytes);
    Buffer& to = server.buffer(kBytes);
    Buffer& credit = client.buffer(8);
    Buffer& note = server.buffer(8);
    ASSERT_EQ(server.post_receive(nullptr), 0);
    std::thread receiver([&] {
      // Its own sends complete in between.
      for (int left = 2 * kRounds; left > 0; --left) {
        const ibv_wc got = server.completion();
        ASSERT_EQ(got.status, IBV_WC_SUCCESS);
        if (got.opcode == IBV_WC_SEND) continue;
        const auto tag = static_cast<std::byte>(ntohl(got.imm_data));
        ASSERT_TRUE(std::all_of(to.bytes.begin(), to.bytes.end(),
                                [&](std::byte byte) { return byte == tag; }));
        ASSERT_EQ(server.post_receive(nullptr), 0);
        ASSERT_EQ(server.post(IBV_WR_SEND, note, 8), 0);
      }
    });
    for (int round = 1; round <= kRounds; ++round) {
      ASSERT_EQ(client.post_receive(&credit, 2), 0);
      std::fill(from.bytes.begin(), from.bytes.end(), static_cast<std::byte>(round));
      ASSERT_EQ(client.post(IBV_WR_RDMA_WRITE_WITH_IMM, from, kBytes, &to, 3, IBV_SEND_SIGNALED,
                            static_cast<std::uint32_t>(round)),
                0);
      for (int i = 0; i < 2; ++i) ASSERT_EQ(client.completion().status, IBV_WC_SUCCESS);
    }
    receiver.join();
    EXPECT_EQ(one.rnr_count() + other.rnr_count(), 0u);
  }
  EXPECT_THAT(one.leaks(), IsEmpty());
  EXPECT_THAT(other.complaints(), IsEmpty());
}

}  // namespace
}  // namespace farwrite::verbs_double
