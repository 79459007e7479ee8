// kSimulated: the kind of the simulated fabric, which the library itself does not have.
#pragma once

#include "device/fabrics.h"
#include "farwrite/options.h"
#include "simulated/simulated_network.h"

namespace farwrite::fabric {

// Its number on the wire, which options.h keeps free.
inline constexpr FabricKind kSimulated{4};

// For a FabricRegistration: devices that list kSimulated join this network, which outlives the
// registration.
FabricEntry simulated_entry(SimulatedNetwork& network);

}  // namespace farwrite::fabric
