// How a role introduces itself that breaks the rules after the handshake.
#pragma once

#include "device/handshake.h"
#include "device/secrets.h"
#include "fabric/fabric.h"

namespace farwrite::fault {

// A peer that holds this user's token, and so gets past the handshake, over `fabric` alone.
inline device::LocalIdentity hostile_identity(fabric::Fabric& fabric) {
  device::LocalIdentity self;
  self.uuid[0] = 7;
  self.epoch = 7;
  self.endpoint.port = 7;
  self.fabrics = {&fabric};
  self.token = device::Secrets::of(Token()).at(/*is_loopback=*/true).value().token;
  return self;
}

}  // namespace farwrite::fault
