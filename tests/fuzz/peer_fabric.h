// A fabric that counts its links and moves nothing, for the handshake.
#pragma once

#include <memory>
#include <string>

#include "fabric/fabric.h"

namespace farwrite::fuzz {

class CountedLink final : public fabric::Link {
 public:
  explicit CountedLink(int& alive) : alive_(alive) { ++alive_; }
  ~CountedLink() override { --alive_; }
  Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>&, std::uint64_t, std::uint64_t,
                              std::uint64_t) override {
    return std::uint64_t{0};
  }
  Status revoke(std::uint64_t, core::Deadline) override { return Status(); }
  Result<std::shared_ptr<fabric::RemoteWindow>> import(const RegionDescriptor&,
                                                       core::Deadline) override {
    return std::shared_ptr<fabric::RemoteWindow>();
  }
  Completion post(const fabric::Operation&) override { return Completion(Status()); }
  fabric::Progress poll(std::uint32_t, fabric::EventSink&) override { return {}; }
  fabric::Doorbell arm(std::uint32_t) override { return {}; }
  fabric::LinkCounters counters() const override { return {}; }

 private:
  int& alive_;
};

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
    return std::unique_ptr<fabric::Link>(std::make_unique<CountedLink>(alive));
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
