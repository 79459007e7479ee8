// What a work completion's status means, as a Status that a user can act on.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "fabric/verbs/verbs_library.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

// Where a work request ran.
struct WorkPlace {
  std::string peer;    // "10.9.0.2:7777"
  std::string device;  // "rxe0"
  std::uint32_t lane = 0;
};

// `operation` as a user knows it: "write", "read", "flush". Success gives Ok. The sentence names
// operation, peer, device, ibv_wc_status_str, the vendor error and a remedy.
Status status_of(VerbsLibrary& library, const ibv_wc& completion, std::string_view operation,
                 const WorkPlace& place);

// Whether the status says that the peer or the way to it is gone (retries used up, flushed), and
// not that somebody broke a rule (a bad key, a bad length).
bool means_peer_gone(ibv_wc_status status);

// An asynchronous event in words, with what to do. `fatal`: the device is of no use any more.
std::string describe_event(const ibv_async_event& event, const std::string& device, bool* fatal);

}  // namespace farwrite::fabric::verbs
