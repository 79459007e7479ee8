// TransportCounts: counts of this process's gRPC connections, for FARWRITE_GRPC_STATS and for
// people.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "core/mutex.h"
#include "farwrite/stream.h"

namespace farwrite::grpc {

// Thread-safe.
class TransportCounts {
 public:
  static TransportCounts& get();

  // A connection's bytes go both ways over Farwrite.
  void upgraded() { upgraded_.fetch_add(1); }
  // A connection stays on TCP. Says so on standard error, once for each reason.
  void stayed(const std::string& reason);
  void sent(std::uint64_t bytes) { sent_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void received(std::uint64_t bytes) {
    received_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // Copied for a write, because gRPC lends them only until the write is done.
  void borrowed(std::uint64_t bytes) {
    borrowed_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  // The counts of a pair's streams, when it goes.
  void add(const stream::Stats& stats);

  // One line of JSON.
  std::string to_json() const;

 private:
  std::atomic<std::uint64_t> upgraded_{0};
  std::atomic<std::uint64_t> sent_bytes_{0};
  std::atomic<std::uint64_t> received_bytes_{0};
  std::atomic<std::uint64_t> borrowed_bytes_{0};

  mutable core::Mutex mutex_{core::LockRank::kProgram};
  std::map<std::string, std::uint64_t> stayed_ FW_GUARDED_BY(mutex_);
  stream::Stats streams_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::grpc
