// VerbsLibrary: what Farwrite needs of libibverbs and librdmacm, as one interface.
//
// The real one opens both libraries at run time, so that one build serves machines with and without
// them; tests put a software double in its place. Every method that returns an int returns 0 or an
// errno value, every one that returns a pointer returns null and sets errno. Descriptors of
// channels are poll(2)able, and the caller makes them non-blocking.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

// Thread-safe, as libibverbs is. Stateless but for what its functions make.
class VerbsLibrary {
 public:
  // Opened once and for all. kUnavailable names the file or function that is missing, and the
  // package to install.
  static Result<VerbsLibrary*> open();

  VerbsLibrary() = default;
  VerbsLibrary(const VerbsLibrary&) = delete;
  VerbsLibrary& operator=(const VerbsLibrary&) = delete;
  virtual ~VerbsLibrary() = default;

  // Devices. Contexts stay open until free_devices().
  virtual ibv_context** get_devices(int* count) = 0;
  virtual void free_devices(ibv_context** devices) = 0;
  virtual const char* device_name(ibv_context* context) = 0;
  // The addresses of this host's interfaces that are up, loopback left out.
  virtual std::vector<sockaddr_storage> addresses() = 0;
  virtual int query_device(ibv_context* context, ibv_device_attr* attributes) = 0;
  virtual int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) = 0;
  virtual int query_gid(ibv_context* context, std::uint32_t port, std::uint32_t index,
                        ibv_gid_entry* entry) = 0;
  virtual int get_async_event(ibv_context* context, ibv_async_event* event) = 0;
  virtual void ack_async_event(ibv_async_event* event) = 0;

  // Whether a forked child misses private memory that is registered: on Linux before 5.12 it has
  // to.
  virtual bool hides_from_children() { return false; }

  // Memory. Access bits that the driver does not know and may ignore are ignored.
  virtual ibv_pd* alloc_pd(ibv_context* context) = 0;
  virtual int dealloc_pd(ibv_pd* domain) = 0;
  virtual ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, unsigned access) = 0;
  // Memory behind a dma-buf, such as a GPU's, for peers and the adapter to find at `address`.
  // EOPNOTSUPP where the library, the kernel or the adapter cannot.
  virtual ibv_mr* reg_dmabuf_mr(ibv_pd* domain, int fd, std::uint64_t offset, std::size_t bytes,
                                std::uint64_t address, unsigned access) = 0;
  virtual int dereg_mr(ibv_mr* region) = 0;

  // Completion queues.
  virtual ibv_comp_channel* create_comp_channel(ibv_context* context) = 0;
  virtual int destroy_comp_channel(ibv_comp_channel* channel) = 0;
  virtual ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) = 0;
  virtual int destroy_cq(ibv_cq* queue) = 0;
  // How many were taken, or a negative number.
  virtual int poll_cq(ibv_cq* queue, int entries, ibv_wc* completions) = 0;
  virtual int req_notify_cq(ibv_cq* queue) = 0;
  // EAGAIN when there is none.
  virtual int get_cq_event(ibv_comp_channel* channel, ibv_cq** queue) = 0;
  virtual void ack_cq_events(ibv_cq* queue, unsigned events) = 0;
  virtual const char* wc_status_text(ibv_wc_status status) = 0;

  // Queue pairs. post_*() stop at the first request that does not fit; `bad` is that one.
  virtual int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) = 0;
  virtual int query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init) = 0;
  virtual int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) = 0;
  virtual int post_recv(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** bad) = 0;
  // Whether data of `opcode` is written in order (ibv_query_qp_data_in_order); false if nothing
  // promises it.
  virtual bool data_in_order(ibv_qp* pair, ibv_wr_opcode opcode) = 0;

  // Connections (rdma_cm, RDMA_PS_TCP).
  virtual rdma_event_channel* create_event_channel() = 0;
  virtual void destroy_event_channel(rdma_event_channel* channel) = 0;
  // EAGAIN when there is none.
  virtual int get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) = 0;
  virtual int ack_cm_event(rdma_cm_event* event) = 0;
  virtual const char* cm_event_text(rdma_cm_event_type event) = 0;
  virtual int create_id(rdma_event_channel* channel, rdma_cm_id** id) = 0;
  virtual int destroy_id(rdma_cm_id* id) = 0;
  virtual int migrate_id(rdma_cm_id* id, rdma_event_channel* channel) = 0;
  virtual int bind_addr(rdma_cm_id* id, sockaddr* address) = 0;
  virtual int listen(rdma_cm_id* id, int backlog) = 0;
  // The port of a bound id, host byte order.
  virtual std::uint16_t local_port(rdma_cm_id* id) = 0;
  virtual int resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                           int timeout_ms) = 0;
  virtual int resolve_route(rdma_cm_id* id, int timeout_ms) = 0;
  virtual int create_qp(rdma_cm_id* id, ibv_pd* domain, ibv_qp_init_attr* attributes) = 0;
  virtual void destroy_qp(rdma_cm_id* id) = 0;
  virtual int connect(rdma_cm_id* id, rdma_conn_param* parameters) = 0;
  virtual int accept(rdma_cm_id* id, rdma_conn_param* parameters) = 0;
  virtual int reject(rdma_cm_id* id) = 0;
  virtual int disconnect(rdma_cm_id* id) = 0;
  virtual int set_option(rdma_cm_id* id, int level, int name, void* value, std::size_t bytes) = 0;

  // The folder in which the kernel describes this machine's devices.
  virtual std::string sysfs() const { return "/sys"; }
};

}  // namespace farwrite::fabric::verbs
