// Two sides of a connection over software RNICs, for the double's own tests.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "verbs_double/software_rnic.h"

namespace farwrite::verbs_double {

inline constexpr unsigned kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr int kPatienceMs = 30'000;

inline sockaddr_in address_of(const std::string& host, std::uint16_t port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

inline sockaddr* generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

inline bool readable(int fd, int timeout_ms = kPatienceMs) {
  pollfd asked{fd, POLLIN, 0};
  return ::poll(&asked, 1, timeout_ms) == 1;
}

// What a test keeps of an event after it has acknowledged it.
struct SeenEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_DEVICE_REMOVAL;
  int status = 0;
  rdma_cm_id* id = nullptr;
  rdma_conn_param param{};
  std::string data;
};

// A registered buffer.
struct Buffer {
  std::vector<std::byte> bytes;
  ibv_mr* region = nullptr;
  std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uint64_t>(bytes.data()) + offset;
  }
};

struct SideOptions {
  std::uint32_t depth = 16;
  std::uint32_t inline_bytes = 64;
  int queue_entries = 64;
};

// One process's objects, one queue pair.
class Side {
 public:
  explicit Side(SoftwareRnic& library, const SideOptions& options = {})
      : rnic(library), options_(options) {
    devices = rnic.get_devices(nullptr);
    context = devices[0];
    domain = rnic.alloc_pd(context);
    completions = rnic.create_comp_channel(context);
    ::fcntl(completions->fd, F_SETFL, O_NONBLOCK);
    queue = rnic.create_cq(context, options.queue_entries, completions);
    events = rnic.create_event_channel();
    ::fcntl(events->fd, F_SETFL, O_NONBLOCK);
  }
  ~Side() { close(); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  void close() {
    if (domain == nullptr) return;
    close_id();
    for (auto& buffer : buffers) {
      if (buffer->region == nullptr) continue;
      EXPECT_EQ(rnic.dereg_mr(buffer->region), 0);
    }
    if (listener != nullptr) rnic.destroy_id(listener);
    rnic.destroy_event_channel(events);
    EXPECT_EQ(rnic.destroy_cq(queue), 0);
    EXPECT_EQ(rnic.destroy_comp_channel(completions), 0);
    EXPECT_EQ(rnic.dealloc_pd(domain), 0);
    rnic.free_devices(devices);
    domain = nullptr;
  }
  void close_id() {
    if (id == nullptr) return;
    if (id->qp != nullptr) rnic.destroy_qp(id);
    rnic.destroy_id(id);
    id = nullptr;
  }

  std::uint16_t listen(const std::string& host = "127.0.0.1", int backlog = 8) {
    EXPECT_EQ(rnic.create_id(events, &listener), 0);
    sockaddr_in at = address_of(host);
    EXPECT_EQ(rnic.bind_addr(listener, generic(at)), 0);
    EXPECT_EQ(rnic.listen(listener, backlog), 0);
    return rnic.local_port(listener);
  }

  SeenEvent event() {
    SeenEvent seen;
    rdma_cm_event* taken = nullptr;
    int error = EAGAIN;
    while (error == EAGAIN && readable(events->fd)) error = rnic.get_cm_event(events, &taken);
    if (error != 0) {
      ADD_FAILURE() << "no event of the connection manager";
      return seen;
    }
    seen.type = taken->event;
    seen.status = taken->status;
    seen.id = taken->id;
    seen.param = taken->param.conn;
    if (seen.param.private_data != nullptr) {
      seen.data.assign(static_cast<const char*>(seen.param.private_data),
                       seen.param.private_data_len);
    }
    rnic.ack_cm_event(taken);
    return seen;
  }
  void expect_event(rdma_cm_event_type type, int status = 0) {
    const SeenEvent seen = event();
    EXPECT_STREQ(rnic.cm_event_text(seen.type), rnic.cm_event_text(type));
    EXPECT_EQ(seen.status, status);
  }

  // Up to where connect() may be called.
  void resolve(const std::string& host, std::uint16_t port) {
    ASSERT_EQ(rnic.create_id(events, &id), 0);
    sockaddr_in to = address_of(host, port);
    ASSERT_EQ(rnic.resolve_addr(id, nullptr, generic(to), 1000), 0);
    expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(rnic.resolve_route(id, 1000), 0);
    expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_pair();
  }
  void make_pair() {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = attributes.cap.max_recv_wr = options_.depth;
    attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 2;
    attributes.cap.max_inline_data = options_.inline_bytes;
    ASSERT_EQ(rnic.create_qp(id, domain, &attributes), 0);
  }
  static rdma_conn_param parameters(std::string_view data = {}, std::uint8_t rnr_retry = 7) {
    rdma_conn_param made{};
    made.private_data = data.empty() ? nullptr : data.data();
    made.private_data_len = static_cast<std::uint8_t>(data.size());
    made.responder_resources = 4;
    made.initiator_depth = 4;
    made.retry_count = 7;
    made.rnr_retry_count = rnr_retry;
    return made;
  }

  Buffer& buffer(std::size_t bytes, unsigned access = kAllAccess, int fill = 0) {
    auto& made = *buffers.emplace_back(std::make_unique<Buffer>());
    made.bytes.assign(bytes, static_cast<std::byte>(fill));
    made.region = rnic.reg_mr(domain, made.bytes.data(), bytes, access);
    EXPECT_NE(made.region, nullptr);
    return made;
  }

  // Posts one request; 0 or errno.
  int post(ibv_wr_opcode opcode, const Buffer& from, std::size_t bytes, const Buffer* to = nullptr,
           std::uint64_t wr_id = 0, unsigned flags = IBV_SEND_SIGNALED, std::uint32_t imm = 0) {
    ibv_sge piece{from.address(), static_cast<std::uint32_t>(bytes),
                  from.region == nullptr ? 0 : from.region->lkey};
    ibv_send_wr request{};
    request.wr_id = wr_id;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = flags;
    request.imm_data = htonl(imm);
    if (to != nullptr) {
      request.wr.rdma.remote_addr = to->address();
      request.wr.rdma.rkey = to->region->rkey;
    }
    return post(request);
  }
  int post(ibv_send_wr& request) {
    ibv_send_wr* bad = nullptr;
    const int error = rnic.post_send(id->qp, &request, &bad);
    EXPECT_EQ(bad, error == 0 ? nullptr : &request);
    return error;
  }
  int post_receive(const Buffer* into = nullptr, std::uint64_t wr_id = 0) {
    ibv_sge piece{};
    ibv_recv_wr request{};
    request.wr_id = wr_id;
    if (into != nullptr) {
      piece = {into->address(), static_cast<std::uint32_t>(into->bytes.size()), into->region->lkey};
      request.sg_list = &piece;
      request.num_sge = 1;
    }
    ibv_recv_wr* bad = nullptr;
    return rnic.post_recv(id->qp, &request, &bad);
  }

  // The next completion, waited for with events.
  ibv_wc completion() {
    ibv_wc taken{};
    for (;;) {
      if (rnic.poll_cq(queue, 1, &taken) == 1) return taken;
      rnic.req_notify_cq(queue);
      if (rnic.poll_cq(queue, 1, &taken) == 1) return taken;
      if (!readable(completions->fd)) {
        ADD_FAILURE() << "no completion";
        taken.status = IBV_WC_GENERAL_ERR;
        return taken;
      }
      ibv_cq* which = nullptr;
      if (rnic.get_cq_event(completions, &which) == 0) rnic.ack_cq_events(which, 1);
    }
  }
  void expect_completion(ibv_wc_status status, std::uint64_t wr_id) {
    const ibv_wc seen = completion();
    EXPECT_STREQ(rnic.wc_status_text(seen.status), rnic.wc_status_text(status));
    EXPECT_EQ(seen.wr_id, wr_id);
  }
  ibv_qp_state pair_state() {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    rnic.query_qp(id->qp, &attributes, IBV_QP_STATE, &init);
    return attributes.qp_state;
  }

  SoftwareRnic& rnic;
  ibv_context** devices = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_comp_channel* completions = nullptr;
  ibv_cq* queue = nullptr;
  rdma_event_channel* events = nullptr;
  rdma_cm_id* listener = nullptr;
  rdma_cm_id* id = nullptr;
  std::vector<std::unique_ptr<Buffer>> buffers;

 private:
  const SideOptions options_;
};

// `client` asks, `server` listens.
inline void connect_sides(Side& client, Side& server, const std::string& host = "127.0.0.1",
                          std::uint8_t rnr_retry = 7) {
  const std::uint16_t port = server.listen(host);
  client.resolve(host, port);
  rdma_conn_param asks = Side::parameters("hello", rnr_retry);
  ASSERT_EQ(client.rnic.connect(client.id, &asks), 0);
  const SeenEvent request = server.event();
  ASSERT_EQ(request.type, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.data.substr(0, 5), "hello");
  server.id = request.id;
  server.make_pair();
  rdma_conn_param answers = Side::parameters("welcome", rnr_retry);
  ASSERT_EQ(server.rnic.accept(server.id, &answers), 0);
  const SeenEvent established = client.event();
  ASSERT_EQ(established.type, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(established.data.substr(0, 7), "welcome");
  server.expect_event(RDMA_CM_EVENT_ESTABLISHED);
}

}  // namespace farwrite::verbs_double
