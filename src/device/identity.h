// Who a device is: a uuid that stays over restarts, and an epoch that does not.
#pragma once

#include <cstdint>

#include "core/region.h"
#include "farwrite/endpoint.h"

namespace farwrite::device {

// Made from the boot, the network namespace and the endpoint: the process that listens there next
// is the same device, restarted.
DeviceUuid uuid_of(const Endpoint& endpoint);

// Grows with every call in every process: nanoseconds of the wall clock, never the same twice here.
std::uint64_t next_epoch();

}  // namespace farwrite::device
