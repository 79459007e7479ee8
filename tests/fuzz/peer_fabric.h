// A fabric that counts its links and moves nothing, for the handshake.
#pragma once

#include <memory>
#include <string>

#include "fabric/fabric.h"
#include "idle_link.h"

namespace farwrite::fuzz {

class PeerFabric final : public fabric::Fabric {
 public:
  PeerFabric(FabricKind kind, bool works) : kind_(kind), works_(works) {}
  FabricKind kind() const override { return kind_; }
  const fabric::Capabilities& capabilities() const override { return capabilities_; }
  Result<std::uint64_t> register_segment(const std::shared_ptr<memory::Segment>&) override {
    return std::uint64_t{0};
  }
  std::string address() const override { return "here"; }
  Result<std::unique_ptr<fabric::Link>> attach(const fabric::AttachRequest&) override {
    ++attached;
    if (!works_) return Status(StatusCode::kUnavailable, "attach: this fabric does not work");
    return std::unique_ptr<fabric::Link>(std::make_unique<IdleLink>(alive));
  }

  int attached = 0;  // attempts
  int alive = 0;     // links

 private:
  const FabricKind kind_;
  const bool works_;
  const fabric::Capabilities capabilities_;
};

struct NoObserver final : fabric::LinkObserver {
  void on_peer_dead(const Status&) override {}
  void on_link_error(const Status&) override {}
};

}  // namespace farwrite::fuzz
