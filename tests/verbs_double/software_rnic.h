// SoftwareRnic: a software double of libibverbs, librdmacm and the adapters behind them, inside one
// process.
//
// It executes work requests on a thread of its own and keeps to the rules of reliable connections:
// what is not allowed on an adapter fails here with the same error. Two devices may share one
// double, or use two that share a network. Besides, tests can make it fail, and count.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/verbs/verbs_library.h"
#include "verbs_double/adapter.h"
#include "verbs_double/connection_manager.h"
#include "verbs_double/network.h"
#include "verbs_double/rnic_options.h"

namespace farwrite::verbs_double {

// Thread-safe. Must outlive every device that uses it.
class SoftwareRnic final : public fabric::verbs::VerbsLibrary {
 public:
  explicit SoftwareRnic(const RnicOptions& device = {}, const WireOptions& wire = {},
                        std::shared_ptr<Network> network = nullptr);
  explicit SoftwareRnic(const std::vector<RnicOptions>& devices, const WireOptions& wire = {},
                        std::shared_ptr<Network> network = nullptr);
  ~SoftwareRnic() override;

  static std::shared_ptr<Network> make_network() { return std::make_shared<Network>(); }
  const std::shared_ptr<Network>& network() const { return adapter_.network; }

  // The machine that the devices are in: a folder like /sys. Before a device uses the double.
  void set_sysfs(std::string folder) { sysfs_ = std::move(folder); }

  // Faults.

  // The next send request that starts, of `pair` or of any, ends like this instead; `after` others
  // pass before.
  void fail_next(ibv_wc_status status, std::uint32_t vendor_error = 0, const ibv_qp* pair = nullptr,
                 int after = 0);
  // `times` calls fail with `error` once `after` others have passed; negative: all of them.
  void refuse(Call call, int error, int times = 1, int after = 0);
  void refuse_registration(int error, int times = -1) { refuse(Call::kRegMr, error, times); }
  void allow(Call call);
  // Nothing gets in or out any more. Sends end with IBV_WC_RETRY_EXC_ERR after retry_time, goodbyes
  // are lost, connecting is UNREACHABLE.
  void break_link() { adapter_.broken = true; }
  void restore_link() { adapter_.broken = false; }
  // Stands still, and so does the thread that wants something of it, for as long as it takes: no
  // request is executed or acknowledged. When pause() returns, nothing moves.
  void pause();
  void resume() { adapter_.paused = false; }
  // Asynchronous events, of the device by its place among the options. PORT_ERR and PORT_ACTIVE
  // change the port's state, too.
  void raise_port_event(ibv_event_type type, std::uint8_t port = 1, std::size_t device = 0);
  void raise_device_event(ibv_event_type type, std::size_t device = 0);
  // The pair goes to the error state, as after QP_FATAL.
  void raise_pair_event(ibv_event_type type, ibv_qp* pair);
  // As when it is pulled out: DEVICE_FATAL, every pair in error, DEVICE_REMOVAL for every id.
  void remove_device(std::size_t device = 0);
  // Holds back the sends of one pair, while others go on.
  void hold(ibv_qp* pair);
  void release(ibv_qp* pair);
  // All there are, oldest first.
  std::vector<ibv_qp*> pairs();

  // Counts.

  std::uint64_t posted(ibv_wr_opcode opcode) const;
  std::uint64_t signalled() const { return adapter_.counters.signalled; }
  std::uint64_t inlined() const { return adapter_.counters.inlined; }
  std::uint64_t receives_posted() const { return adapter_.counters.receives; }
  std::uint64_t bytes_moved() const { return adapter_.counters.bytes; }
  // How often a request of this double met no receive.
  std::uint64_t rnr_count() const { return adapter_.counters.rnr_naks; }
  std::uint64_t overruns() const { return adapter_.counters.overruns; }
  std::uint64_t registrations_live() const { return adapter_.memory.live(); }
  std::uint64_t registrations_ever() const { return adapter_.memory.ever(); }
  // What its users must not do: overruns, unacknowledged events at a destroy_*(), and so on.
  std::vector<std::string> complaints();
  // The objects that are there now: "2 queue pairs".
  std::vector<std::string> leaks();

  // VerbsLibrary.

  std::string sysfs() const override { return sysfs_; }
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
  // Null, with errno set, if the test wants this call to fail.
  bool refuses(Call call);

  std::string sysfs_;  // empty: nothing is known about the machine
  Adapter adapter_;
  ConnectionManager connections_;
};

}  // namespace farwrite::verbs_double
