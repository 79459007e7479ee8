// RawTcpPath: the limit of two processes over plain TCP sockets. It has the same five calls as
// RawPath and FarwritePath, so that all run in the same measuring loops.
//
// A transfer is one send() of the bytes and a recv() straight into the slot; an answer is 8 bytes.
// There are no frames, checks or names, because both sides know the order of the transfers.
// kSocketTuning describes the sockets.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

#include "farwrite/status.h"
#include "phase.h"
#include "raw_limits.h"
#include "stage.h"

namespace farwrite::bench {

// Printed with every figure.
inline constexpr std::string_view kSocketTuning =
    "TCP_NODELAY, buffers sized by the kernel (tcp_rmem, tcp_wmem), one connection per lane, one "
    "send() and recv() for as much as the kernel takes; a sender blocks when the socket is full";

// One per process and phase, over one connected socket for each lane. put, signal, take and fetch
// may be called by one thread per lane.
class RawTcpPath {
 public:
  RawTcpPath(Role role, Stage& stage, const Phase& phase, const SlotMap& map,
             const std::vector<int>& sockets);
  ~RawTcpPath();
  RawTcpPath(const RawTcpPath&) = delete;
  RawTcpPath& operator=(const RawTcpPath&) = delete;

  Status put(std::uint32_t lane, std::uint32_t slot, const std::byte* source);
  Status signal(std::uint32_t lane, std::uint32_t slot);
  Result<Arrival> take(std::uint32_t lane);
  Status fetch(std::uint32_t lane, std::uint32_t slot, std::byte* destination);
  Result<const std::byte*> view(std::uint32_t slot);

 private:
  Status send(std::uint32_t lane, const void* data, std::uint64_t bytes) const;
  Status receive(std::uint32_t lane, void* data, std::uint64_t bytes) const;
  // The sender of kRead: answers requests for slots until it receives a request for no slot.
  void serve(std::uint32_t lane) const;

  const Role role_;
  Stage& stage_;
  const Phase& phase_;
  const SlotMap& map_;
  const std::vector<int>& sockets_;
  const bool echo_;
  std::array<std::uint32_t, kMaxLanes> taken_{};
  std::vector<std::thread> servers_;
};

}  // namespace farwrite::bench
