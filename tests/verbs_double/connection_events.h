// The events of rdma_cm and the goodbyes between two ids. All functions want Network::lock held.
#pragma once

#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "verbs_double/connection_manager.h"

namespace farwrite::verbs_double {

std::unique_ptr<CmEvent> make_event(const std::shared_ptr<CmId>& owner, rdma_cm_event_type type,
                                    int status);
// Puts in what the other side said. Its private data is padded with zeros to `padded` bytes.
void describe(CmEvent& event, const rdma_conn_param& said, std::size_t padded);
// To the owner's channel.
void send(std::unique_ptr<CmEvent> event);
void push(const std::shared_ptr<CmId>& owner, rdma_cm_event_type type, int status);

// Runs `action` with the lock held, unless the id is destroyed before.
void later(Adapter& adapter, const std::shared_ptr<CmId>& id, std::chrono::milliseconds delay,
           std::function<void(CmId&)> action);

// Tells who asked that there will be no connection.
void refuse(CmId& passive);
// Whatever its state: tells the peer that this id goes or disconnects.
void leave(const std::shared_ptr<CmId>& id);

}  // namespace farwrite::verbs_double
