// PeerTable: where the device of each task listens.
#pragma once

#include <map>
#include <string>

#include "farwrite/endpoint.h"
#include "farwrite/status.h"

namespace farwrite::experiments {

class PeerTable {
 public:
  // From FARWRITE_RPC_OVER_FABRIC_PEERS: "/job:ps/replica:0/task:0=127.0.0.1:7000,...".
  // kInvalidArgument if it cannot be read.
  static Result<PeerTable> from_environment();

  // kNotFound if the variable does not name the task.
  Result<Endpoint> find(const std::string& task) const;

 private:
  std::map<std::string, Endpoint> endpoints_;
};

}  // namespace farwrite::experiments
