// HeldPort: keeps the port that a task's gRPC server is about to bind.
//
// The device opens before that server binds, because the server's parts refer to the device. The
// device, and every other program, must not take the port in between.
#pragma once

namespace farwrite::plugin {

class HeldPort {
 public:
  // Binds `port` on every address of this host, and does not listen. Holds nothing if the port is 0
  // or something has it already: then gRPC reports that. gRPC's own socket has SO_REUSEADDR, so it
  // binds the port all the same.
  explicit HeldPort(int port);
  ~HeldPort();
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

 private:
  int socket_ = -1;
};

}  // namespace farwrite::plugin
