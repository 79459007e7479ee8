#include "python/peer.h"

#include <nanobind/stl/string.h>

#include <string>
#include <utility>

namespace farwrite::python {

namespace nb = nanobind;

nb::typed<nb::dict, nb::str, nb::object> to_dict(const PeerInfo& info) {
  nb::dict peer;
  peer["endpoint"] = info.endpoint.to_string();
  peer["uuid"] = nb::bytes(info.uuid.data(), info.uuid.size());
  peer["epoch"] = info.epoch;
  peer["fabric"] = std::string(to_string(info.fabric));
  peer["fabric_reason"] = info.fabric_reason;
  peer["lanes"] = info.lanes;
  peer["encrypted"] = info.encrypted;
  return nb::typed<nb::dict, nb::str, nb::object>(std::move(peer));
}

}  // namespace farwrite::python
