// RealLibrary: the machine's libibverbs and librdmacm, opened at run time.
//
// Nothing links them. Functions are found by name; what verbs.h defines inline goes through the
// context's own table, as it does for every program.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "fabric/verbs/verbs_library.h"

namespace farwrite::fabric::verbs {

// Pointers to the functions, under their own names.
struct Functions {
#define FARWRITE_VERBS_FUNCTIONS(F) \
  F(ibv_get_device_name)            \
  F(ibv_query_device)               \
  F(ibv_query_port)                 \
  F(_ibv_query_gid_ex)              \
  F(ibv_get_async_event)            \
  F(ibv_ack_async_event)            \
  F(ibv_alloc_pd)                   \
  F(ibv_dealloc_pd)                 \
  F(ibv_reg_mr)                     \
  F(ibv_dereg_mr)                   \
  F(ibv_create_comp_channel)        \
  F(ibv_destroy_comp_channel)       \
  F(ibv_create_cq)                  \
  F(ibv_destroy_cq)                 \
  F(ibv_get_cq_event)               \
  F(ibv_ack_cq_events)              \
  F(ibv_wc_status_str)              \
  F(ibv_modify_qp)                  \
  F(ibv_query_qp)
// Newer than the oldest library that serves; null where they are missing.
#define FARWRITE_VERBS_OPTIONAL_FUNCTIONS(F) \
  F(ibv_fork_init)                           \
  F(ibv_is_fork_initialized)                 \
  F(ibv_reg_mr_iova2)                        \
  F(ibv_reg_dmabuf_mr)                       \
  F(ibv_query_qp_data_in_order)
#define FARWRITE_CM_FUNCTIONS(F) \
  F(rdma_get_devices)            \
  F(rdma_free_devices)           \
  F(rdma_create_event_channel)   \
  F(rdma_destroy_event_channel)  \
  F(rdma_get_cm_event)           \
  F(rdma_ack_cm_event)           \
  F(rdma_event_str)              \
  F(rdma_create_id)              \
  F(rdma_destroy_id)             \
  F(rdma_migrate_id)             \
  F(rdma_bind_addr)              \
  F(rdma_listen)                 \
  F(rdma_get_src_port)           \
  F(rdma_resolve_addr)           \
  F(rdma_resolve_route)          \
  F(rdma_create_qp)              \
  F(rdma_destroy_qp)             \
  F(rdma_connect)                \
  F(rdma_accept)                 \
  F(rdma_reject)                 \
  F(rdma_disconnect)             \
  F(rdma_set_option)

#define FARWRITE_MEMBER(name) \
  decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  FARWRITE_VERBS_FUNCTIONS(FARWRITE_MEMBER)
  FARWRITE_VERBS_OPTIONAL_FUNCTIONS(FARWRITE_MEMBER)
  FARWRITE_CM_FUNCTIONS(FARWRITE_MEMBER)
#undef FARWRITE_MEMBER

  // Opens both files, which stay open for ever: their threads and ours may be inside.
  static Result<Functions> load(const std::string& verbs_file, const std::string& cm_file);
};

// The addresses of this host's interfaces that are up, loopback left out.
std::vector<sockaddr_storage> host_addresses();

class RealLibrary : public VerbsLibrary {
 public:
  explicit RealLibrary(const Functions& functions) : functions_(functions) {}

  ibv_context** get_devices(int* count) override;
  void free_devices(ibv_context** devices) override;
  const char* device_name(ibv_context* context) override;
  std::vector<sockaddr_storage> addresses() override;
  int query_device(ibv_context* context, ibv_device_attr* attributes) override;
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) override;
  int query_gid(ibv_context* context, std::uint32_t port, std::uint32_t index,
                ibv_gid_entry* entry) override;
  int get_async_event(ibv_context* context, ibv_async_event* event) override;
  void ack_async_event(ibv_async_event* event) override;

  bool hides_from_children() override;

  ibv_pd* alloc_pd(ibv_context* context) override;
  int dealloc_pd(ibv_pd* domain) override;
  ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, unsigned access) override;
  ibv_mr* reg_dmabuf_mr(ibv_pd* domain, int fd, std::uint64_t offset, std::size_t bytes,
                        std::uint64_t address, unsigned access) override;
  int dereg_mr(ibv_mr* region) override;

  ibv_comp_channel* create_comp_channel(ibv_context* context) override;
  int destroy_comp_channel(ibv_comp_channel* channel) override;
  ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) override;
  int destroy_cq(ibv_cq* queue) override;
  int poll_cq(ibv_cq* queue, int entries, ibv_wc* completions) override;
  int req_notify_cq(ibv_cq* queue) override;
  int get_cq_event(ibv_comp_channel* channel, ibv_cq** queue) override;
  void ack_cq_events(ibv_cq* queue, unsigned events) override;
  const char* wc_status_text(ibv_wc_status status) override;

  int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) override;
  int query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init) override;
  int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) override;
  int post_recv(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** bad) override;
  bool data_in_order(ibv_qp* pair, ibv_wr_opcode opcode) override;

  rdma_event_channel* create_event_channel() override;
  void destroy_event_channel(rdma_event_channel* channel) override;
  int get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) override;
  int ack_cm_event(rdma_cm_event* event) override;
  const char* cm_event_text(rdma_cm_event_type event) override;
  int create_id(rdma_event_channel* channel, rdma_cm_id** id) override;
  int destroy_id(rdma_cm_id* id) override;
  int migrate_id(rdma_cm_id* id, rdma_event_channel* channel) override;
  int bind_addr(rdma_cm_id* id, sockaddr* address) override;
  int listen(rdma_cm_id* id, int backlog) override;
  std::uint16_t local_port(rdma_cm_id* id) override;
  int resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                   int timeout_ms) override;
  int resolve_route(rdma_cm_id* id, int timeout_ms) override;
  int create_qp(rdma_cm_id* id, ibv_pd* domain, ibv_qp_init_attr* attributes) override;
  void destroy_qp(rdma_cm_id* id) override;
  int connect(rdma_cm_id* id, rdma_conn_param* parameters) override;
  int accept(rdma_cm_id* id, rdma_conn_param* parameters) override;
  int reject(rdma_cm_id* id) override;
  int disconnect(rdma_cm_id* id) override;
  int set_option(rdma_cm_id* id, int level, int name, void* value, std::size_t bytes) override;

 private:
  const Functions functions_;
  std::atomic<unsigned> next_vector_{0};  // completion vectors are handed out in turn
};

}  // namespace farwrite::fabric::verbs
