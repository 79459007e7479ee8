// FarSide: the peer of the matrix, with the other ends of what is used.
#pragma once

#include <memory>
#include <string>

#include "simulated/simulated_network.h"

namespace farwrite::fault {

// The network of the simulated fabric, of this process. The first call registers the fabric.
fabric::SimulatedNetwork& matrix_network();

class FarSide {
 public:
  // A process of its own; over the simulated fabric, which is of one process, a thread. Connects to
  // the endpoints of a device and of its box.
  static std::unique_ptr<FarSide> open(const std::string& device, const std::string& box,
                                       const std::string& fabric);
  virtual ~FarSide() = default;

  // Waits for "at" or "box", its endpoints, or for "ready".
  virtual std::string wait_for(const std::string& word) = 0;
  virtual void kill() = 0;
  virtual void stop() = 0;  // not of a thread
  virtual void resume() = 0;
  // Closes all it has, normally.
  virtual void close() = 0;
};

}  // namespace farwrite::fault
