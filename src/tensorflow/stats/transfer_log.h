// What users' own tools show of the tensors between tasks: RunMetadata and the timeline, and traces
// of tf.profiler. Stock records there what its gRPC workers carry; this records what the plug-in
// moves, under stock's names and with the way that a tensor took.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "tensorflow/core/distributed_runtime/worker_cache_logger.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tsl/profiler/lib/traceme.h"

namespace farwrite::plugin {

// The records of this process, until the step's master fetches them. One for all servers: a step's
// id is its master's random number. Thread-safe.
class TransferLog {
 public:
  static TransferLog& of_process();

  // Whether a step wants records. One relaxed load.
  bool recording() const { return wanted_.load(std::memory_order_relaxed) > 0; }
  // When a transfer starts, in microseconds since 1970; 0 if nothing records it.
  std::int64_t start() const;

  void want() { wanted_.fetch_add(1); }
  void no_longer_want() { wanted_.fetch_sub(1); }
  // Adds the step's records to `stats` and forgets them; false if there are none.
  bool retrieve(std::int64_t step, tensorflow::StepStats* stats);
  void clear() { records_.ClearLogs(); }

 private:
  friend class Transfer;

  std::atomic<std::int64_t> wanted_{0};
  tensorflow::WorkerCacheLogger records_;
};

// One tensor on one side of its transfer: a span in the profiler's trace from here to the end of
// the scope, and a record in RunMetadata from `started` until then. What is passed in lives as
// long.
class Transfer {
 public:
  enum class Kind { kSendTensor, kRecvTensor, kSendBuf, kRecvBuf };

  // `started` is TransferLog::start() of that time.
  Transfer(Kind kind, std::int64_t step, const tensorflow::Rendezvous::ParsedKey& key,
           std::int64_t started);
  // Of a collective, whose place() `key` is.
  Transfer(Kind kind, std::int64_t step, std::string_view key, std::int64_t started);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // How it went, and over which fabric; "" for none. Without this call it did not, and nothing is
  // recorded.
  void went(std::string_view way, std::string_view fabric, std::uint64_t bytes);
  // When the sender began, by its own start().
  void sent_at(std::int64_t sent) { sent_ = sent; }

 private:
  void record();

  const Kind kind_;
  const std::int64_t step_;
  const std::int64_t started_;
  std::string_view tensor_;
  std::string_view from_;
  std::string_view to_;
  std::int64_t sent_ = 0;
  bool went_ = false;
  std::string_view way_;
  std::string_view fabric_;
  std::uint64_t bytes_ = 0;
  tsl::profiler::TraceMe span_;
};

}  // namespace farwrite::plugin
