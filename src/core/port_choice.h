// PortChoice: which ports a listener that may have any port tries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "farwrite/options.h"

namespace farwrite::core {

// The ports to try, in this order; 0 at the end stands for the kernel's choice.
//
// With a range, the ports of the range. Without, some of the kernel's ephemeral ports that it gives
// to a bind(2) only when it has no others: it prefers every second port, and the lower half under
// SO_REUSEADDR. Launchers take such ports for tasks that start later, and give them back meanwhile.
// A listener that takes one of them keeps that task from starting.
std::vector<std::uint16_t> ports_to_try(const PortRange& range);

// The same without the machine. `ephemeral` and `reserved` are the texts of
// /proc/sys/net/ipv4/ip_local_port_range and ip_local_reserved_ports, `start` is any number.
std::vector<std::uint16_t> ports_to_try(const std::string& ephemeral, const std::string& reserved,
                                        std::uint32_t start);

}  // namespace farwrite::core
