// ShmFabric: shared memory between processes of one user on one host.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "core/event_loop.h"
#include "core/sha256.h"
#include "core/spare_fd.h"
#include "fabric/fabric.h"
#include "fabric/shm/attach.h"

namespace farwrite::fabric::shm {

class ShmFabric final : public Fabric {
 public:
  // Listens on an abstract unix socket with an unguessable name. `loop` outlives the fabric and
  // every link it makes; the fabric outlives its links.
  static Result<std::unique_ptr<Fabric>> create(core::EventLoop& loop);
  ~ShmFabric() override;

  FabricKind kind() const override { return FabricKind::kShm; }
  const Capabilities& capabilities() const override;
  Result<std::uint64_t> register_segment(const std::shared_ptr<memory::Segment>& segment) override;
  std::string address() const override { return name_; }
  Result<std::unique_ptr<Link>> attach(const AttachRequest& request) override;

 private:
  ShmFabric(core::EventLoop& loop, std::string name, core::UniqueFd listener);

  // A connection whose first packet has come, or not yet.
  struct Arrival {
    core::UniqueFd socket;
    core::Deadline deadline;
  };

  void on_connection();
  void on_first_packet(int fd);
  void drop_stale_locked();
  Result<std::unique_ptr<Link>> accept(const AttachRequest& request);
  std::unique_ptr<Link> make_link(Attachment attachment, const AttachRequest& request);

  core::EventLoop& loop_;
  const std::string name_;
  const core::UniqueFd listener_;
  core::SpareFd spare_fd_;  // loop's thread only

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<int, Arrival> unread_;
  struct Offer {
    core::UniqueFd socket;
    AttachOffer offer;
    core::Deadline deadline;
  };
  std::map<core::Digest, Offer> offers_;
  std::vector<std::weak_ptr<memory::Segment>> exported_;
};

}  // namespace farwrite::fabric::shm
