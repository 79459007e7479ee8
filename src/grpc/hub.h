// Hub: this process's device and its pairs.
//
// gRPC's own threads poll the pairs while they wait for events. The hub's keeper thread polls them
// only when bytes wait that a program's threads do not look after: TCP's bytes leave by the
// kernel's work, and so ours must leave while a program computes.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "farwrite/device.h"
#include "grpc/pair.h"
#include "grpc/polling.h"
#include "grpc/settings.h"

namespace farwrite::grpc {

// Thread-safe. Lives until the process ends.
class Hub {
 public:
  using OnPair = std::function<void(Result<std::shared_ptr<Pair>>)>;
  // True: done with.
  using Check = std::function<bool()>;

  // The first call opens the device. A forked child gets a hub of its own.
  static Result<Hub*> get();
  // Null where none was opened.
  static Hub* existing();

  Device& device() { return device_; }
  const Settings& settings() const { return settings_; }
  Polling& polling() { return polling_; }

  // The pair to the device at `endpoint`, which must have that identity. `on_pair` is called once,
  // in a thread of the hub.
  void connect(const Endpoint& endpoint, const DeviceUuid& device, OnPair on_pair);
  // The pair that connect() or await() would find at once; null if there is none.
  std::shared_ptr<Pair> connected(const DeviceUuid& device);
  std::shared_ptr<Pair> accepted(const DeviceUuid& device);
  // The pair that the other device makes, or has made. Forgotten if `owner` goes first.
  void await(const DeviceUuid& device, std::weak_ptr<void> owner, OnPair on_pair);

  // Adds the counts of the pairs to the report: once, when the process ends.
  void report_pairs();
  // Delivers what has come to any pair. True if there was something.
  bool poll();
  // Prepares a sleep of a thread that polls. False: poll() first.
  bool arm();
  // This thread polls in a loop, and arms at its end: peers need not ring meanwhile.
  void disarm();
  // Whether polling before a sleep may pay: something came a moment ago.
  bool is_busy() const;

  // Bytes wait: until uncover(), the keeper looks after the pairs if nothing else polls.
  void cover();
  void uncover();
  // Calls `check` every few milliseconds, until it returns true.
  void keep(Check check);
  // Polls until no check is left, or `time` has passed: at the end of the process.
  void drain(std::chrono::nanoseconds time);

 private:
  struct PairWaiter {
    std::weak_ptr<void> owner;
    OnPair on_pair;
  };

  Hub(Settings settings, Device device);
  static Result<Hub*> open();
  void accept_all();
  void post(std::function<void()> job);
  void work();
  void keep_all();
  void run_checks();
  std::shared_ptr<Pair> find(const std::map<DeviceUuid, std::shared_ptr<Pair>>& pairs,
                             const DeviceUuid& device);
  // Returns the pairs that are over, to be destroyed without it.
  [[nodiscard]] std::vector<std::shared_ptr<Pair>> add(const std::shared_ptr<Pair>& pair)
      FW_REQUIRES(mutex_);
  std::shared_ptr<const std::vector<std::shared_ptr<Pair>>> pairs();

  const Settings settings_;
  Device device_;
  std::atomic<std::int64_t> last_found_ns_{0};
  std::atomic<std::int64_t> last_poll_ns_{0};
  std::atomic<int> covered_{0};
  Polling polling_{*this};

  core::Mutex mutex_{core::LockRank::kProgram, 1};
  std::map<DeviceUuid, std::shared_ptr<Pair>> connected_ FW_GUARDED_BY(mutex_);
  std::map<DeviceUuid, std::shared_ptr<Pair>> accepted_ FW_GUARDED_BY(mutex_);
  std::multimap<DeviceUuid, PairWaiter> waiting_ FW_GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<std::shared_ptr<Pair>>> pairs_ FW_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> pairs_version_{1};

  core::Mutex jobs_mutex_{core::LockRank::kProgram};
  core::CondVar jobs_changed_;
  std::deque<std::function<void()>> jobs_ FW_GUARDED_BY(jobs_mutex_);

  core::Mutex keeper_mutex_{core::LockRank::kProgram};
  core::CondVar keeper_changed_;
  std::vector<Check> checks_ FW_GUARDED_BY(keeper_mutex_);
  bool checking_ FW_GUARDED_BY(keeper_mutex_) = false;  // a round of checks is under way
};

}  // namespace farwrite::grpc
