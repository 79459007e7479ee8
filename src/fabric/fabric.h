// Fabric: a way to move bytes. The one interface that shm, tcp and verbs implement.
//
// A Fabric belongs to a device, a Link (link.h) to a channel, a Lane (lane.h) to a link. Nothing in
// these headers knows names, leases, tensors or processes' identities: the device layer above has
// done the handshake and checked the token before attach() is called.
//
// Threads: every method may be called from any thread. Callbacks (sink, observer, completions) run
// without a fabric lock held.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fabric/attach_request.h"
#include "fabric/capabilities.h"
#include "fabric/link.h"
#include "farwrite/device_types.h"
#include "farwrite/options.h"
#include "farwrite/status.h"
#include "memory/segment.h"

namespace farwrite::fabric {

class Fabric {
 public:
  Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  virtual ~Fabric() = default;

  virtual FabricKind kind() const = 0;
  virtual const Capabilities& capabilities() const = 0;

  // Lets attached peers read an export segment. Where the fabric serves reads, they read only what
  // they hold leases on, elsewhere all of it. Returns the key for descriptors. Called once per
  // segment, never per region.
  virtual Result<std::uint64_t> register_segment(
      const std::shared_ptr<memory::Segment>& segment) = 0;

  // Opens what a peer connects to, if the fabric leaves that to the first peer. Before address()
  // and an accepting attach(); again it does nothing.
  virtual Status make_reachable() { return Status(); }

  // How an authenticated peer finds this fabric; opaque to the layers above.
  virtual std::string address() const = 0;

  // Registers memory of the user until the handle goes, for transfers from it and, if `writable`,
  // to it. Null: this fabric needs no registration.
  virtual Result<std::shared_ptr<const void>> register_memory(ByteView /*memory*/,
                                                              bool /*writable*/) {
    return std::shared_ptr<const void>();
  }
  // What adapters have registered; zeros where there are none.
  virtual AdapterStats registration_counters() const { return {}; }

  // Makes a link, from either side. Fails with kUnavailable and the reason when the peer cannot be
  // reached this way (another host, say).
  virtual Result<std::unique_ptr<Link>> attach(const AttachRequest& request) = 0;
};

}  // namespace farwrite::fabric
