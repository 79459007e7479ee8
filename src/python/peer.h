// What a peer is, as Python's `farwrite.Peer` takes it.
#pragma once

#include <nanobind/nanobind.h>

#include "farwrite/channel_types.h"

namespace farwrite::python {

nanobind::typed<nanobind::dict, nanobind::str, nanobind::object> to_dict(const PeerInfo& info);

}  // namespace farwrite::python
