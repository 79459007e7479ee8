#include "grpc/pair.h"

#include <utility>

#include "core/mutex.h"
#include "grpc/transport_counts.h"

namespace farwrite::grpc {

Result<std::shared_ptr<Pair>> Pair::create(Device device, Channel channel,
                                           const stream::Options& options) {
  stream::Options fitting = options;
  fitting.message_window = std::max(options.message_window, channel.max_message_bytes());
  Result<stream::Streams> streams = stream::Streams::create(std::move(device), channel, fitting);
  if (!streams.ok()) return streams.status();
  // Not make_shared: the constructor is private.
  return std::shared_ptr<Pair>(new Pair(std::move(channel), *std::move(streams)));
}

Pair::~Pair() { TransportCounts::get().add(streams_.stats()); }

std::shared_ptr<void> Pair::watch(const std::function<std::shared_ptr<void>()>& make) {
  const core::Lock lock(mutex_);
  std::shared_ptr<void> watch = watch_.lock();
  if (watch == nullptr) watch_ = watch = make();
  return watch;
}

}  // namespace farwrite::grpc
