// IdleLink: a link that moves nothing, for tests of what comes before the first operation.
#pragma once

#include <cstdint>
#include <memory>

#include "fabric/fabric.h"

namespace farwrite {

class IdleLane final : public fabric::Lane {
 public:
  Completion post(const fabric::Operation&) override { return Completion(Status()); }
  fabric::Progress poll(fabric::EventSink&) override { return {}; }
  fabric::Doorbell arm() override { return {}; }
};

// Counts itself in `alive`, which outlives it.
class IdleLink : public fabric::Link {
 public:
  explicit IdleLink(int& alive) : alive_(alive) { ++alive_; }
  ~IdleLink() override { --alive_; }
  fabric::Lane& lane(std::uint32_t /*index*/) override { return lane_; }
  Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>&, std::uint64_t, std::uint64_t,
                              std::uint64_t) override {
    return std::uint64_t{0};
  }
  Status revoke(std::uint64_t, std::uint64_t /*region_id*/, core::Deadline) override {
    return Status();
  }
  Result<std::shared_ptr<fabric::RemoteWindow>> import(const RegionDescriptor&,
                                                       core::Deadline) override {
    return std::shared_ptr<fabric::RemoteWindow>();
  }
  fabric::LinkCounters counters() const override { return {}; }

 private:
  int& alive_;
  IdleLane lane_;
};

}  // namespace farwrite
