// StreamProbe: round trips that find the best sizes for one channel, and the answers to the peer's.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "core/mutex.h"
#include "stream/stream.h"
#include "stream/stream_link.h"

namespace farwrite::stream {

// Thread-safe; one measurement at a time.
class StreamProbe {
 public:
  explicit StreamProbe(const std::shared_ptr<StreamLink>& link) : link_(link) {}

  // Sets lend_from and chunk; what there was no time for stays. kDeadlineExceeded if the peer does
  // not answer at all.
  Status tune(Options& options, std::chrono::nanoseconds time);

  // A kProbe of the peer. It is answered when its bytes have been looked at.
  void answer(const StreamFrame& frame, const RemoteRegion& lent);
  // A kProbed.
  void take(std::uint64_t number);
  void end(const Status& reason);

 private:
  using Clock = std::chrono::steady_clock;

  // Seconds of one round trip with `bytes` in a message.
  Result<double> message(std::uint64_t bytes);
  // The same with lent memory, which the peer reads in pieces of `chunk` if it cannot map it.
  // The lease keeps the buffer, however late it returns.
  Result<double> lent(const StreamLink::StreamBuffer& buffer, std::uint64_t bytes,
                      std::uint64_t chunk);
  Result<double> best(const std::function<Result<double>()>& measure, Clock::time_point end);
  Result<double> answered(std::uint64_t number, Clock::time_point begin, const Completion& sent);
  std::uint64_t next_number();

  const std::shared_ptr<StreamLink> link_;
  core::Mutex tuning_{core::LockRank::kStream, 1};
  core::Mutex mutex_{core::LockRank::kStream};
  core::CondVar changed_;
  std::uint64_t number_ FW_GUARDED_BY(mutex_) = 0;
  std::uint64_t answered_ FW_GUARDED_BY(mutex_) = 0;
  Status ended_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::stream
