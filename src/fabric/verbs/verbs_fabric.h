// VerbsFabric: one-sided transfers by RDMA: InfiniBand, RoCE, iWARP.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/event_loop.h"
#include "core/mutex.h"
#include "fabric/fabric.h"
#include "fabric/verbs/adapter.h"
#include "fabric/verbs/async_events.h"
#include "fabric/verbs/cm_channel.h"
#include "fabric/verbs/protocol.h"
#include "fabric/verbs/verbs_link.h"

namespace farwrite::fabric::verbs {

// Over one RDMA device, the best there is or the one that was asked for. Thread-safe. The loop
// outlives the fabric.
class VerbsFabric final : public Fabric {
 public:
  // kUnavailable, with the reason and what to do: no library, no device, no port that is up.
  static Result<std::unique_ptr<Fabric>> create(core::EventLoop& loop,
                                                const FabricOptions& options);
  ~VerbsFabric() override;

  // One line for each address that peers can reach by verbs, the first one first in line; or why
  // there is none.
  static Result<std::vector<std::string>> describe(const VerbsOptions& options);

  FabricKind kind() const override { return FabricKind::kVerbs; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::uint64_t> register_segment(const std::shared_ptr<memory::Segment>& segment) override;
  Result<std::shared_ptr<const void>> register_memory(ByteView memory, bool writable) override {
    auto registration = adapter_->registrations().acquire(memory, writable);
    if (!registration.ok()) return registration.status();
    return std::shared_ptr<const void>(*std::move(registration));
  }
  AdapterStats registration_counters() const override { return adapter_->registrations().stats(); }
  // "10.9.0.1 18515": where rdma_cm reaches us.
  std::string address() const override;
  Result<std::unique_ptr<Link>> attach(const AttachRequest& request) override;

 private:
  // A connection that has not found its handshake yet.
  struct ConnectRequest {
    rdma_cm_id* id = nullptr;
    JoinMessage join;
    std::uint8_t reads = 0;  // that it wants to have under way
    core::Deadline deadline = core::Deadline::never();
  };

  VerbsFabric(core::EventLoop& loop, std::shared_ptr<Adapter> adapter);
  Status listen();
  void on_cm_event();
  void refuse(rdma_cm_id* id);
  Status connect_lane(VerbsLink& link, const AttachRequest& request, std::uint16_t lane);
  // Waits for the connection that belongs to this handshake.
  Status accept_lane(VerbsLink& link, const AttachRequest& request, std::uint16_t lane);
  Result<ConnectRequest> wait_for_connect_request(const AttachRequest& request, std::uint16_t lane);
  // Whether the adapter reads and writes the GPU's memory directly; if not, why.
  Status check_reach(const gpu::Gpu& gpu) const;
  rdma_conn_param parameters(std::uint8_t reads) const;
  Status refused(std::string_view operation, const AttachRequest& request, std::string_view what,
                 int error) const;

  core::EventLoop& loop_;
  const std::shared_ptr<Adapter> adapter_;
  AsyncEvents events_;
  Capabilities capabilities_;
  std::unique_ptr<CmChannel> cm_;
  rdma_cm_id* listener_ = nullptr;
  bool watched_ = false;

  core::Mutex mutex_{core::LockRank::kVerbs};
  core::CondVar arrived_;
  std::list<ConnectRequest> connect_requests_ FW_GUARDED_BY(mutex_);  // oldest first
};

}  // namespace farwrite::fabric::verbs
