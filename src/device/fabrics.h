// Every kind of fabric: how it is made, and whether this machine has it.
//
// Only fabrics.cc names the kinds of the library. The layers above choose by Capabilities, users by
// FabricKind.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/event_loop.h"
#include "fabric/fabric.h"
#include "farwrite/options.h"
#include "farwrite/status.h"

namespace farwrite::fabric {

// A kind of fabric: how a device gets one, and what `farwrite info` shows of it.
struct FabricEntry {
  FabricKind kind = FabricKind::kShm;
  // A device that lists other fabrics too does without this one where make() fails.
  bool needs_hardware = false;
  // The loop outlives the fabric.
  std::function<Result<std::unique_ptr<Fabric>>(core::EventLoop& loop,
                                                const DeviceOptions& options)>
      make;
  // The ways to be reached by it, the best first and at least one; or why there is none.
  std::function<Result<std::vector<std::string>>(const DeviceOptions& options)> describe;
};

// Adds a kind to those of the library, for devices that are opened while it lives. Neither its
// beginning nor its end may meet the opening of a device in another thread.
class FabricRegistration {
 public:
  // No other entry is of this kind.
  explicit FabricRegistration(FabricEntry entry);
  ~FabricRegistration();
  FabricRegistration(const FabricRegistration&) = delete;
  FabricRegistration& operator=(const FabricRegistration&) = delete;

 private:
  const FabricKind kind_;
};

// One fabric. kUnavailable if this machine or this build cannot have it; the sentence says why, and
// what to do. The loop outlives the fabric.
Result<std::unique_ptr<Fabric>> make_fabric(FabricKind kind, core::EventLoop& loop,
                                            const DeviceOptions& options);

// The fabrics of `options.fabrics`, in that order. A fabric whose hardware this machine lacks is
// left out if the list has others, and a log line reports it.
Result<std::vector<std::unique_ptr<Fabric>>> make_fabrics(core::EventLoop& loop,
                                                          const DeviceOptions& options);

// What `farwrite info` shows of a fabric.
struct FabricReport {
  FabricKind kind = FabricKind::kShm;
  bool usable = false;
  std::string reason;             // why it is not usable; or its peers, or its address
  std::vector<std::string> more;  // further addresses
};
// A report for each kind, best first.
std::vector<FabricReport> describe_fabrics(const DeviceOptions& options);

}  // namespace farwrite::fabric
