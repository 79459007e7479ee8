#include "grpc/hub.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <utility>

#include "core/mutex.h"
#include "core/start_thread.h"
#include "core/thread_own.h"
#include "grpc/transport_counts.h"

namespace farwrite::grpc {
namespace {

constexpr std::chrono::milliseconds kTick{5};
// After this long without a look from gRPC's threads, the keeper looks.
constexpr std::chrono::milliseconds kUnattended{5};
constexpr std::chrono::milliseconds kBusyFor{2};

core::Mutex hub_mutex{core::LockRank::kProgram, 2};
std::atomic<Hub*> the_hub{nullptr};

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

Hub* Hub::existing() { return the_hub.load(std::memory_order_acquire); }

Result<Hub*> Hub::get() {
  if (Hub* const hub = existing()) return hub;
  const core::Lock lock(hub_mutex);
  if (Hub* const hub = existing()) return hub;
  return open();
}

Result<Hub*> Hub::open() {
  Result<Settings> settings = Settings::from_environment();
  if (!settings.ok()) return settings.status();
  Result<Device> device = Device::open(settings->device);
  if (!device.ok()) return device.status();
  std::unique_ptr<Hub> opened(new Hub(*std::move(settings), *std::move(device)));
  // All its threads or none: each waits for the last one. They live until the process ends.
  std::promise<Hub*> all_started;
  const std::shared_future<Hub*> ready = all_started.get_future().share();
  for (void (Hub::* const body)() : {&Hub::accept_all, &Hub::work, &Hub::keep_all}) {
    std::thread thread;
    Status started =
        core::start_thread(thread, {"open the device of gRPC's connections"}, [ready, body] {
          if (Hub* const hub = ready.get()) (hub->*body)();
        });
    if (!started.ok()) {
      all_started.set_value(nullptr);
      return started;
    }
    thread.detach();
  }
  auto* const hub = opened.release();
  the_hub.store(hub, std::memory_order_release);
  // A parent's hub stays the parent's, and so does the lock if another thread holds it.
  static std::once_flag once;
  std::call_once(once, [] {
    ::pthread_atfork([]() FW_ACQUIRE(hub_mutex) { hub_mutex.lock(); },
                     []() FW_RELEASE(hub_mutex) { hub_mutex.unlock(); },
                     []() FW_RELEASE(hub_mutex) {
                       the_hub.store(nullptr);
                       hub_mutex.unlock();
                     });
  });
  all_started.set_value(hub);
  return hub;
}

Hub::Hub(Settings settings, Device device)
    : settings_(std::move(settings)),
      device_(std::move(device)),
      pairs_(std::make_shared<const std::vector<std::shared_ptr<Pair>>>()) {}

void Hub::accept_all() {
  while (true) {
    Result<Channel> channel = device_.accept();
    if (!channel.ok()) return;  // the device is closed
    Result<std::shared_ptr<Pair>> pair = Pair::create(device_, *channel, settings_.streams);
    if (!pair.ok()) continue;
    const DeviceUuid uuid = (*pair)->peer().uuid;
    std::vector<PairWaiter> waiting;
    std::vector<std::shared_ptr<Pair>> over;
    {
      const core::Lock lock(mutex_);
      over = add(*pair);
      accepted_[uuid] = *pair;
      const auto [first, last] = waiting_.equal_range(uuid);
      for (auto entry = first; entry != last; ++entry) waiting.push_back(std::move(entry->second));
      waiting_.erase(first, last);
    }
    for (const PairWaiter& entry : waiting) {
      if (const std::shared_ptr<void> owner = entry.owner.lock()) entry.on_pair(*pair);
    }
  }
}

void Hub::work() {
  core::Lock lock(jobs_mutex_);
  while (true) {
    jobs_changed_.wait(jobs_mutex_, [&]() FW_REQUIRES(jobs_mutex_) { return !jobs_.empty(); });
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

std::shared_ptr<Pair> Hub::find(const std::map<DeviceUuid, std::shared_ptr<Pair>>& pairs,
                                const DeviceUuid& device) {
  const auto found = pairs.find(device);
  return found != pairs.end() && found->second->is_open() ? found->second : nullptr;
}

std::shared_ptr<Pair> Hub::connected(const DeviceUuid& device) {
  const core::Lock lock(mutex_);
  return find(connected_, device);
}

std::shared_ptr<Pair> Hub::accepted(const DeviceUuid& device) {
  const core::Lock lock(mutex_);
  return find(accepted_, device);
}

void Hub::connect(const Endpoint& endpoint, const DeviceUuid& device, OnPair on_pair) {
  post([this, endpoint, device, on_pair = std::move(on_pair)] {
    if (std::shared_ptr<Pair> pair = connected(device)) return on_pair(std::move(pair));
    Result<Channel> channel = device_.connect(endpoint, std::chrono::seconds(5));
    if (!channel.ok()) return on_pair(channel.status());
    if (channel->peer().uuid != device) {
      return on_pair(
          Status::error(StatusCode::kUnavailable, {.operation = "upgrade a gRPC connection"},
                        "another device answers at " + endpoint.to_string() +
                            ": the two processes see different networks",
                        "run both in one network namespace, or set FARWRITE_GRPC_LISTEN"));
    }
    Result<std::shared_ptr<Pair>> pair = Pair::create(device_, *channel, settings_.streams);
    std::vector<std::shared_ptr<Pair>> over;
    if (pair.ok()) {
      const core::Lock lock(mutex_);
      over = add(*pair);
      connected_[device] = *pair;
    }
    on_pair(std::move(pair));
  });
}

void Hub::post(std::function<void()> job) {
  {
    const core::Lock lock(jobs_mutex_);
    jobs_.push_back(std::move(job));
  }
  jobs_changed_.notify_one();
}

void Hub::await(const DeviceUuid& device, std::weak_ptr<void> owner, OnPair on_pair) {
  const core::Lock lock(mutex_);
  // A peer may promise a device that never comes.
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.owner.expired(); });
  const auto found = accepted_.find(device);
  if (found != accepted_.end() && found->second->is_open()) {
    return post([pair = found->second, on_pair = std::move(on_pair)] { on_pair(pair); });
  }
  waiting_.emplace(device, PairWaiter{std::move(owner), std::move(on_pair)});
}

std::vector<std::shared_ptr<Pair>> Hub::add(const std::shared_ptr<Pair>& pair) {
  std::vector<std::shared_ptr<Pair>> pairs = {pair};
  std::vector<std::shared_ptr<Pair>> over;
  for (const auto& known : *pairs_) (known->is_open() ? pairs : over).push_back(known);
  std::erase_if(connected_, [](const auto& entry) { return !entry.second->is_open(); });
  std::erase_if(accepted_, [](const auto& entry) { return !entry.second->is_open(); });
  pairs_ = std::make_shared<const std::vector<std::shared_ptr<Pair>>>(std::move(pairs));
  pairs_version_.fetch_add(1);
  return over;
}

std::shared_ptr<const std::vector<std::shared_ptr<Pair>>> Hub::pairs() {
  struct Seen {
    const Hub* hub = nullptr;
    std::uint64_t version = 0;
    std::shared_ptr<const std::vector<std::shared_ptr<Pair>>> pairs;
  };
  Seen& seen = core::thread_own<Seen>();  // so that polling takes no lock
  const std::uint64_t version = pairs_version_.load();
  if (seen.hub != this || seen.version != version) {
    const core::Lock lock(mutex_);
    seen = {.hub = this, .version = version, .pairs = pairs_};
  }
  return seen.pairs;
}

void Hub::report_pairs() {
  for (const auto& pair : *pairs()) TransportCounts::get().add(pair->streams().stats());
}

bool Hub::poll() {
  bool found = false;
  for (const auto& pair : *pairs()) found = pair->streams().poll() || found;
  const std::int64_t now = now_ns();
  last_poll_ns_.store(now, std::memory_order_relaxed);
  if (found) last_found_ns_.store(now, std::memory_order_relaxed);
  return found;
}

bool Hub::arm() {
  bool quiet = true;
  for (const auto& pair : *pairs()) quiet = pair->streams().arm() && quiet;
  return quiet;
}

void Hub::disarm() {
  for (const auto& pair : *pairs()) pair->streams().disarm();
}

bool Hub::is_busy() const {
  return now_ns() - last_found_ns_.load(std::memory_order_relaxed) <
         std::chrono::nanoseconds(kBusyFor).count();
}

void Hub::cover() {
  if (covered_.fetch_add(1) > 0) return;
  {
    const core::Lock lock(keeper_mutex_);  // the keeper has looked before, or will after this
  }
  keeper_changed_.notify_one();
}

void Hub::uncover() { covered_.fetch_sub(1); }

void Hub::keep(Check check) {
  {
    const core::Lock lock(keeper_mutex_);
    checks_.push_back(std::move(check));
  }
  keeper_changed_.notify_one();
}

void Hub::keep_all() {
  while (true) {
    {
      core::Lock lock(keeper_mutex_);
      keeper_changed_.wait(keeper_mutex_, [&]() FW_REQUIRES(keeper_mutex_) {
        return covered_.load() > 0 || !checks_.empty();
      });
    }
    const std::int64_t seen = last_poll_ns_.load(std::memory_order_relaxed);
    if (now_ns() - seen > std::chrono::nanoseconds(kUnattended).count()) {
      // The thread that sleeps on the doorbells counts on their being armed.
      do {
        while (poll()) {
        }
      } while (!arm());
      last_poll_ns_.store(seen, std::memory_order_relaxed);  // only gRPC's threads count
    }
    run_checks();
    std::vector<pollfd> doorbells;
    for (const auto& pair : *pairs()) {
      Result<int> descriptor = pair->streams().descriptor();
      if (descriptor.ok()) doorbells.push_back({descriptor.value(), POLLIN, 0});
    }
    const bool attended =
        now_ns() - last_poll_ns_.load() < std::chrono::nanoseconds(kUnattended).count();
    // While others poll, their doorbells are theirs.
    ::poll(doorbells.data(), attended ? 0 : doorbells.size(), static_cast<int>(kTick.count()));
  }
}

void Hub::run_checks() {
  std::vector<Check> checks;
  {
    const core::Lock lock(keeper_mutex_);
    if (checking_) return;
    checking_ = true;
    checks.swap(checks_);
  }
  std::erase_if(checks, [](const Check& check) { return check(); });
  const core::Lock lock(keeper_mutex_);
  checking_ = false;
  checks_.insert(checks_.end(), std::make_move_iterator(checks.begin()),
                 std::make_move_iterator(checks.end()));
}

void Hub::drain(std::chrono::nanoseconds time) {
  const std::int64_t end = now_ns() + time.count();
  while (now_ns() < end) {
    if (poll()) continue;
    run_checks();
    {
      const core::Lock lock(keeper_mutex_);
      if (checks_.empty() && !checking_) return;
    }
    ::usleep(200);
  }
}

}  // namespace farwrite::grpc
