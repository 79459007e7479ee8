#include "threads.h"

#include <future>
#include <string>
#include <thread>
#include <utility>

#include "clock.h"
#include "pair.h"

namespace farwrite::bench {

Result<std::unique_ptr<Threads>> Threads::make(std::uint32_t channels, std::uint64_t max_bytes) {
  std::unique_ptr<Threads> threads(new Threads);
  FARWRITE_RETURN_IF_ERROR(open_pair(threads->left_, threads->right_));
  threads->lanes_.resize(channels);
  for (Lane& lane : threads->lanes_) {
    FARWRITE_RETURN_IF_ERROR(threads->open_lane(lane, max_bytes));
  }
  return threads;
}

Status Threads::open_lane(Lane& lane, std::uint64_t max_bytes) {
  FARWRITE_RETURN_IF_ERROR(connect(left_, right_, lane.near, lane.far));
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
  {
    std::vector<std::jthread> running;
    std::promise<void> started;  // goes before them: where one cannot start, the others go on
    const std::shared_future<void> all_started = started.get_future().share();
    for (std::uint32_t i = 0; i < threads; ++i) {
      running.emplace_back([&, i, all_started] {
        Lane& lane = lanes_[i];
        all_started.wait();
        Status outcome;  // not in `outcomes`, whose line the other threads would store to as well
        for (std::uint64_t k = 0; k < times && outcome.ok(); ++k) {
          outcome = lane.near.write({lane.source.data(), bytes}, lane.target, 0).wait(kTimeout);
        }
        outcomes[i] = std::move(outcome);
      });
    }
    start = Clock::now();
    started.set_value();
  }
  const double took = seconds_since(start);
  for (const Status& outcome : outcomes) FARWRITE_RETURN_IF_ERROR(outcome);
  return took;
}

}  // namespace farwrite::bench
