// What single calls cost: both ends of a channel are in one thread of one process, over shm. So no
// wake-up, no other processor and no other process is in the time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "farwrite/farwrite.h"

namespace farwrite::bench {

// Two devices, and what is called on them. Thread-compatible.
class Calls {
 public:
  static Result<std::unique_ptr<Calls>> make();

  // "write", "read", "notify and try", "write and wait", "send and wait", "static tensor" and
  // "dynamic tensor": bench/python/farwrite_bench/calls/world.py makes the same calls. Tensors,
  // writes, reads and messages have 8 bytes.
  std::vector<std::string> names() const;
  // Seconds of `times` rounds of the calls of `name`.
  Result<double> seconds(const std::string& name, std::uint64_t times);

 private:
  Calls() = default;
  Status open_memory();
  Status open_tensors();
  Status move_tensor(TensorSender& sender, TensorReceiver& receiver);

  Device left_;
  Device right_;
  Channel near_;
  Channel far_;
  MemoryRegion landing_;
  MemoryRegion source_;
  RemoteRegion target_;  // landing_, seen by near_
  RemoteRegion outbox_;  // source_, seen by near_
  TensorReceiver static_receiver_;
  TensorReceiver dynamic_receiver_;
  TensorSender static_sender_;
  TensorSender dynamic_sender_;
  std::uint64_t word_ = 0;
  std::map<std::string, std::function<Status()>> rounds_;
};

}  // namespace farwrite::bench
