#include "threads.h"

#include <barrier>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "clock.h"

namespace farwrite::bench {
namespace {

constexpr std::chrono::seconds kTimeout{20};

template <typename T>
Status put(T& place, Result<T> made) {
  if (!made.ok()) return made.status();
  place = *std::move(made);
  return Status();
}

}  // namespace

Result<std::unique_ptr<Threads>> Threads::make(std::uint32_t channels, std::uint64_t max_bytes) {
  std::unique_ptr<Threads> threads(new Threads);
  DeviceOptions options;
  options.fabrics = {FabricKind::kShm};
  FARWRITE_RETURN_IF_ERROR(put(threads->left_, Device::open(options)));
  FARWRITE_RETURN_IF_ERROR(put(threads->right_, Device::open(options)));
  threads->lanes_.resize(channels);
  for (Lane& lane : threads->lanes_) {
    FARWRITE_RETURN_IF_ERROR(threads->connect(lane, max_bytes));
  }
  return threads;
}

Status Threads::connect(Lane& lane, std::uint64_t max_bytes) {
  auto accepted = std::async(std::launch::async, [this] { return right_.accept(kTimeout); });
  FARWRITE_RETURN_IF_ERROR(put(lane.near, left_.connect(right_.endpoint(), kTimeout)));
  FARWRITE_RETURN_IF_ERROR(put(lane.far, accepted.get()));
  FARWRITE_RETURN_IF_ERROR(put(lane.landing, lane.far.allocate(max_bytes)));
  FARWRITE_RETURN_IF_ERROR(lane.far.publish("landing", lane.landing));
  lane.source.resize(max_bytes);
  return put(lane.target, lane.near.lookup("landing", kTimeout));
}

Result<double> Threads::seconds(std::uint64_t bytes, std::uint64_t times, std::uint32_t threads) {
  if (threads == 0 || threads > lanes_.size() || bytes > lanes_[0].source.size()) {
    return Status::error(
        StatusCode::kInvalidArgument, {.operation = "bench calls"},
        std::to_string(threads) + " threads cannot write " + std::to_string(bytes) + " bytes each",
        "make() more channels, or larger ones");
  }
  std::vector<Status> outcomes(threads);
  Clock::time_point start;
  std::barrier ready(static_cast<std::ptrdiff_t>(threads),
                     [&start]() noexcept { start = Clock::now(); });
  {
    std::vector<std::jthread> running;
    for (std::uint32_t i = 0; i < threads; ++i) {
      running.emplace_back([&, i] {
        Lane& lane = lanes_[i];
        ready.arrive_and_wait();
        Status outcome;  // not in `outcomes`, whose line the other threads would store to as well
        for (std::uint64_t k = 0; k < times && outcome.ok(); ++k) {
          outcome = lane.near.write({lane.source.data(), bytes}, lane.target, 0).wait(kTimeout);
        }
        outcomes[i] = std::move(outcome);
      });
    }
  }
  const double took = seconds_since(start);
  for (const Status& outcome : outcomes) FARWRITE_RETURN_IF_ERROR(outcome);
  return took;
}

}  // namespace farwrite::bench
