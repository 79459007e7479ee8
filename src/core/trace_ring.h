// TraceRing: the latest events of a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/trace.h"

namespace farwrite::core {

// An event as it is kept. Its peer is a number in TraceSnapshot::peers.
struct KeptEvent {
  TraceEvent event;  // its peer is empty
  std::uint32_t peer = 0;
  std::uint32_t thread = 0;  // gettid()
};

struct TraceSnapshot {
  std::vector<KeptEvent> events;  // in no order
  std::vector<std::string> peers;
  std::vector<std::pair<std::uint32_t, std::string>> threads;  // gettid() and the name
  std::uint64_t lost = 0;
};

// Thread-safe: its thread adds, and the thread that writes the file reads.
class TraceRing {
 public:
  explicit TraceRing(std::size_t capacity = kTraceRingEvents) : capacity_(capacity) {}

  void add(const TraceEvent& event, std::uint32_t thread);
  // Appends what is kept.
  void copy_to(TraceSnapshot& snapshot) const;
  std::uint64_t added() const;
  void clear();

 private:
  std::uint32_t number_of(std::string_view peer) FW_REQUIRES(mutex_);

  const std::size_t capacity_;
  mutable Mutex mutex_{LockRank::kCore};
  std::vector<KeptEvent> events_ FW_GUARDED_BY(mutex_);
  std::vector<std::string> peers_ FW_GUARDED_BY(mutex_);
  std::uint64_t added_ FW_GUARDED_BY(mutex_) = 0;
};

// The JSON of a snapshot, for the process `pid` called `process`.
std::string to_json(TraceSnapshot snapshot, std::uint32_t pid, std::string_view process);

}  // namespace farwrite::core
