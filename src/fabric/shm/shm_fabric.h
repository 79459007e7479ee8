// ShmFabric: shared memory between processes of one user on one host.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/event_loop.h"
#include "core/mutex.h"
#include "fabric/fabric.h"
#include "fabric/lobby.h"
#include "fabric/shm/attach.h"

namespace farwrite::fabric::shm {

class ShmFabric final : public Fabric {
 public:
  // Listens on an abstract unix socket with an unguessable name. `loop` outlives the fabric and
  // every link it makes; the fabric outlives its links. A connection that belongs to no handshake
  // is dropped after `handshake_timeout`, and a peer's memory unmapped that was unused for
  // `idle_time`.
  static Result<std::unique_ptr<Fabric>> create(
      core::EventLoop& loop, std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(10),
      std::chrono::nanoseconds idle_time = std::chrono::seconds(60));

  // What it requires of the kernel, tried out. kUnavailable names what is missing.
  static Status check_kernel();

  FabricKind kind() const override { return FabricKind::kShm; }
  const Capabilities& capabilities() const override;
  Result<std::uint64_t> register_segment(const std::shared_ptr<memory::Segment>& segment) override;
  std::string address() const override { return name_; }
  Result<std::unique_ptr<Link>> attach(const AttachRequest& request) override;

 private:
  ShmFabric(core::EventLoop& loop, std::string name, core::UniqueFd listener,
            std::chrono::nanoseconds idle_time);

  Result<std::unique_ptr<Link>> accept(const AttachRequest& request);
  std::unique_ptr<Link> make_link(Attachment attachment, const AttachRequest& request);

  core::EventLoop& loop_;
  const std::string name_;
  const core::UniqueFd listener_;
  const std::chrono::nanoseconds idle_time_;

  core::Mutex mutex_{core::LockRank::kShm};
  std::vector<std::weak_ptr<memory::Segment>> exported_ FW_GUARDED_BY(mutex_);

  std::unique_ptr<Lobby> lobby_;
};

}  // namespace farwrite::fabric::shm
