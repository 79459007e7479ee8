// The measuring loops over UCX, the same as Farwrite's (bench/src/p2p_sender.cc, p2p_receiver.cc).
#pragma once

#include "peer.h"

namespace farwrite::bench::ucx {

// Runs this process's side of shared.order, between two meetings.
void run(Peer& peer, Figures& figures);

}  // namespace farwrite::bench::ucx
