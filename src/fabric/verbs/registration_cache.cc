#include "fabric/verbs/registration_cache.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "core/counter.h"
#include "core/log.h"
#include "core/mutex.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr const char* kRaiseLimit =
    "raise it: `* - memlock unlimited` in /etc/security/limits.conf and a new login, "
    "LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 for docker; or give the process "
    "CAP_IPC_LOCK";

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

std::string name_of(const RegistrationRequest& request) {
  return "register " + bytes_text(request.memory.size) + " with " + request.device;
}

Status locking_denied(const RegistrationRequest& request, int error_number) {
  rlimit limit{};
  const bool known = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0;
  if (!known || limit.rlim_cur == RLIM_INFINITY) {
    if (error_number == EPERM) {
      return Status::system_error(
          StatusCode::kPermissionDenied, {name_of(request), "", "verbs"},
          "the kernel does not let this process lock memory", error_number,
          "in a container, add --ulimit memlock=-1 --cap-add=IPC_LOCK --device=/dev/infiniband");
    }
    return Status::system_error(StatusCode::kResourceExhausted, {name_of(request), "", "verbs"},
                                "memory or the adapter's tables of registrations are exhausted",
                                error_number,
                                "register less at once: larger and fewer pieces, a lower "
                                "send_limit and receive_limit");
  }
  std::string cause = "this process may lock " + std::to_string(limit.rlim_cur / 1024) +
                      " KiB of memory (`ulimit -l`), and " + bytes_text(request.memory.size);
  if (request.registered_bytes != 0) {
    cause += " on top of the " + bytes_text(request.registered_bytes) + " registered already";
  }
  cause += " exceed that";
  return Status::system_error(StatusCode::kResourceExhausted, {name_of(request), "", "verbs"},
                              cause, error_number, kRaiseLimit);
}

using Clock = std::chrono::steady_clock;

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// The whole pages that hold `memory`: so that neighbours in a page share, and because the adapter
// pins pages anyway.
ByteView whole_pages(ByteView memory) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = address_of(memory.data) / page * page;
  const std::uintptr_t end = (address_of(memory.data) + memory.size + page - 1) / page * page;
  return {reinterpret_cast<const void*>(begin), end - begin};
}

}  // namespace

Registration::Registration(VerbsLibrary& library, ibv_mr* region, std::shared_ptr<const void> keeps)
    : library_(library), region_(region), keeps_(std::move(keeps)) {}

Registration::~Registration() {
  // A child would take the parent's registration away: both share the adapter's descriptor.
  if (fork_guard_.in_forked_child()) return;
  const int error = library_.dereg_mr(region_);
  if (error == 0) return;
  core::log(
      core::LogLevel::kWarning,
      Status::system_error(StatusCode::kInternal, {"deregister memory", "", "verbs"},
                           "ibv_dereg_mr", error, "its pages stay locked until this process ends")
          .message());
}

class RegistrationCache::State : public std::enable_shared_from_this<State> {
 public:
  State(VerbsLibrary& library, ibv_pd* domain, std::string device, std::uint64_t max_bytes,
        std::shared_ptr<const void> keeps, bool iwarp)
      : library_(library),
        domain_(domain),
        device_(std::move(device)),
        max_bytes_(max_bytes),
        keeps_(std::move(keeps)),
        iwarp_(iwarp) {}

  Result<std::shared_ptr<Registration>> add_segment(const std::shared_ptr<memory::Segment>& segment,
                                                    unsigned access);
  void remove_segment(const memory::Segment& segment);
  // What the destination of a read needs. iWARP's reads are the peer's writes, as far as the
  // adapter is concerned.
  unsigned writable_access() const {
    return IBV_ACCESS_LOCAL_WRITE | (iwarp_ ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0U);
  }
  std::shared_ptr<Registration> segment_of(ByteView memory, bool writable) const;
  std::shared_ptr<Registration> on_demand_of(ByteView memory, bool writable) const;
  Result<std::shared_ptr<Registration>> cover(ByteView memory, bool writable, bool* registered);
  void drop_segments(bool all);

  core::Counter transfers, transfers_registered;
  RegistrationStats stats() const;
  const core::ForkGuard fork_guard;

 private:
  // Entries are keyed by their first address.
  struct SegmentEntry {
    std::weak_ptr<memory::Segment> segment;
    std::uint32_t id = 0;
    std::uint64_t bytes = 0;
    // One for each kind of access that was asked for. All stay: peers know their keys.
    std::vector<std::pair<unsigned, std::shared_ptr<Registration>>> registrations;

    std::shared_ptr<Registration> with(unsigned access) const {
      for (const auto& [has, registration] : registrations) {
        if ((has & access) == access) return registration;
      }
      return nullptr;
    }
  };
  struct OnDemandEntry {
    std::uint64_t bytes = 0;
    bool writable = false;
    std::weak_ptr<Registration> registration;
  };
  using OnDemand = std::multimap<std::uintptr_t, OnDemandEntry>;

  Result<ibv_mr*> register_bytes(ByteView memory, unsigned access);
  Result<ibv_mr*> register_on_gpu(const memory::Segment& segment, unsigned access);
  // Owns `region` and keeps the counts; `forget` runs first.
  template <typename Forget>
  std::shared_ptr<Registration> own(ibv_mr* region, Forget forget);

  VerbsLibrary& library_;
  ibv_pd* const domain_;
  const std::string device_;
  const std::uint64_t max_bytes_;
  const std::shared_ptr<const void> keeps_;
  const bool iwarp_;

  mutable core::SharedMutex segments_lock_{core::LockRank::kVerbs};
  std::map<std::uintptr_t, SegmentEntry> segments_ FW_GUARDED_BY(segments_lock_);
  mutable core::Mutex on_demand_lock_{core::LockRank::kVerbs};
  OnDemand on_demand_ FW_GUARDED_BY(on_demand_lock_);
  std::uint64_t longest_on_demand_ FW_GUARDED_BY(on_demand_lock_) =
      0;  // bytes; of those there have been since the map was empty

  core::Counter segment_registrations_, on_demand_registrations_, registered_bytes_, released_,
      released_bytes_, nanoseconds_;
};

template <typename Forget>
std::shared_ptr<Registration> RegistrationCache::State::own(ibv_mr* region, Forget forget) {
  return std::shared_ptr<Registration>(
      new Registration(library_, region, keeps_),
      [state = shared_from_this(), forget](Registration* registration) {
        if (state->fork_guard.in_forked_child()) return;  // locks may be held for ever
        forget(*state);
        const std::uint64_t bytes = registration->bytes();
        const Clock::time_point start = Clock::now();
        delete registration;
        state->nanoseconds_.add(static_cast<std::uint64_t>((Clock::now() - start).count()));
        state->released_.add();
        state->released_bytes_.add(bytes);
      });
}

Result<ibv_mr*> RegistrationCache::State::register_bytes(ByteView memory, unsigned access) {
  const RegistrationRequest request{memory, (access & IBV_ACCESS_LOCAL_WRITE) != 0,
                                    registered_bytes_.value() - released_bytes_.value(), max_bytes_,
                                    device_};
  if (max_bytes_ != 0 && memory.size > max_bytes_) return too_large(request);
  const Clock::time_point start = Clock::now();
  errno = 0;
  ibv_mr* const region =
      library_.reg_mr(domain_, const_cast<std::byte*>(memory.data), memory.size, access);
  const int error = errno;
  nanoseconds_.add(static_cast<std::uint64_t>((Clock::now() - start).count()));
  if (region == nullptr) return registration_error(request, error);
  registered_bytes_.add(region->length);
  return region;
}

Result<ibv_mr*> RegistrationCache::State::register_on_gpu(const memory::Segment& segment,
                                                          unsigned access) {
  auto dma_buf = segment.gpu_memory().dma_buf();
  if (!dma_buf.ok()) return dma_buf.status();
  const Clock::time_point start = Clock::now();
  errno = 0;
  // The adapter's driver keeps the buffer, not the descriptor.
  ibv_mr* const region = library_.reg_dmabuf_mr(domain_, dma_buf->get(), 0, segment.bytes(),
                                                address_of(segment.base()), access);
  const int error = errno;
  nanoseconds_.add(static_cast<std::uint64_t>((Clock::now() - start).count()));
  if (region == nullptr) {
    return Status::system_error(
        StatusCode::kUnsupported,
        {"register " + bytes_text(segment.bytes()) + " of a GPU with " + device_, "", "verbs"},
        "ibv_reg_dmabuf_mr failed", error,
        "use an adapter, a driver and rdma-core (34 or newer) that register dma-bufs");
  }
  registered_bytes_.add(region->length);
  return region;
}

Result<std::shared_ptr<Registration>> RegistrationCache::State::add_segment(
    const std::shared_ptr<memory::Segment>& segment, unsigned access) {
  drop_segments(false);
  const std::uintptr_t begin = address_of(segment->base());
  {
    const core::ReaderLock lock(segments_lock_);
    const auto found = segments_.find(begin);
    if (found != segments_.end()) {
      if (auto registration = found->second.with(access)) return registration;
    }
  }
  const Result<ibv_mr*> region = segment->gpu() != nullptr
                                     ? register_on_gpu(*segment, access)
                                     : register_bytes({segment->base(), segment->bytes()}, access);
  if (!region.ok()) return region.status();
  segment_registrations_.add();
  std::shared_ptr<Registration> registration = own(region.value(), [](State&) {});
  const core::WriterLock lock(segments_lock_);
  SegmentEntry& entry = segments_[begin];
  entry.segment = segment;
  entry.id = segment->id();
  entry.bytes = segment->bytes();
  entry.registrations.emplace_back(access, registration);
  return registration;
}

void RegistrationCache::State::remove_segment(const memory::Segment& segment) {
  SegmentEntry gone;  // deregistered outside the lock
  {
    const core::WriterLock lock(segments_lock_);
    const auto found = segments_.find(address_of(segment.base()));
    if (found != segments_.end() && found->second.id == segment.id()) {
      gone = std::move(found->second);
      segments_.erase(found);
    }
  }
  drop_segments(false);
}

// Those whose segment is gone, or all.
void RegistrationCache::State::drop_segments(bool all) {
  const auto is_gone = [all](const auto& item) { return all || item.second.segment.expired(); };
  {
    const core::ReaderLock lock(segments_lock_);
    if (std::none_of(segments_.begin(), segments_.end(), is_gone)) return;
  }
  std::vector<SegmentEntry> gone;  // deregistered outside the lock
  const core::WriterLock lock(segments_lock_);
  for (auto at = segments_.begin(); at != segments_.end();) {
    if (is_gone(*at)) {
      gone.push_back(std::move(at->second));
      at = segments_.erase(at);
    } else {
      ++at;
    }
  }
}

std::shared_ptr<Registration> RegistrationCache::State::segment_of(ByteView memory,
                                                                   bool writable) const {
  const std::uintptr_t begin = address_of(memory.data);
  const core::ReaderLock lock(segments_lock_);
  auto next = segments_.upper_bound(begin);
  if (next == segments_.begin()) return nullptr;
  const auto& [base, entry] = *--next;
  const std::uint64_t offset = begin - base;
  if (offset >= entry.bytes || memory.size > entry.bytes - offset) return nullptr;
  if (entry.segment.expired()) return nullptr;  // other memory may lie there by now
  return entry.with(writable ? writable_access() : 0U);
}

std::shared_ptr<Registration> RegistrationCache::State::on_demand_of(ByteView memory,
                                                                     bool writable) const {
  const std::uintptr_t begin = address_of(memory.data);
  const core::Lock lock(on_demand_lock_);
  // Entries may overlap: one further down can be the one that is long enough.
  for (auto at = on_demand_.upper_bound(begin); at != on_demand_.begin();) {
    const auto& [base, entry] = *--at;
    const std::uint64_t offset = begin - base;
    if (offset >= longest_on_demand_) return nullptr;
    if (offset >= entry.bytes || memory.size > entry.bytes - offset) continue;
    if (writable && !entry.writable) continue;
    if (auto registration = entry.registration.lock()) return registration;
  }
  return nullptr;
}

Result<std::shared_ptr<Registration>> RegistrationCache::State::cover(ByteView memory,
                                                                      bool writable,
                                                                      bool* registered) {
  if (memory.size == 0) {
    return Status::error(StatusCode::kInvalidArgument, {"register memory", "", "verbs"},
                         "the memory has no bytes", "register at least one byte");
  }
  if (auto known = segment_of(memory, writable)) return known;
  if (auto known = on_demand_of(memory, writable)) return known;
  *registered = true;
  drop_segments(false);
  const ByteView pages = whole_pages(memory);
  const unsigned access = writable ? writable_access() : 0U;
  const Result<ibv_mr*> region = register_bytes(pages, access);
  if (!region.ok()) return region.status();
  on_demand_registrations_.add();

  const core::Lock lock(on_demand_lock_);
  const auto at =
      on_demand_.emplace(address_of(pages.data), OnDemandEntry{pages.size, writable, {}});
  longest_on_demand_ = std::max(longest_on_demand_, std::uint64_t{pages.size});
  std::shared_ptr<Registration> registration = own(region.value(), [at](State& state) {
    const core::Lock forget_lock(state.on_demand_lock_);
    state.on_demand_.erase(at);
    if (state.on_demand_.empty()) state.longest_on_demand_ = 0;
  });
  at->second.registration = registration;
  return registration;
}

RegistrationStats RegistrationCache::State::stats() const {
  RegistrationStats stats;
  stats.segments = segment_registrations_.value();
  stats.on_demand = on_demand_registrations_.value();
  // What was released first: the other counters only grow, so nothing comes out negative.
  const std::uint64_t released = released_.value();
  const std::uint64_t released_bytes = released_bytes_.value();
  stats.live = segment_registrations_.value() + on_demand_registrations_.value() - released;
  stats.live_bytes = registered_bytes_.value() - released_bytes;
  stats.nanoseconds = nanoseconds_.value();
  stats.transfers = transfers.value();
  stats.transfers_registered = transfers_registered.value();
  return stats;
}

RegistrationCache::RegistrationCache(VerbsLibrary& library, ibv_pd* domain, std::string device,
                                     std::uint64_t max_bytes, std::shared_ptr<const void> keeps,
                                     bool iwarp)
    : state_(std::make_shared<State>(library, domain, std::move(device), max_bytes,
                                     std::move(keeps), iwarp)) {}

RegistrationCache::~RegistrationCache() {
  if (!state_->fork_guard.in_forked_child()) state_->drop_segments(true);
}

Result<std::shared_ptr<Registration>> RegistrationCache::add_segment(
    const std::shared_ptr<memory::Segment>& segment, unsigned access) {
  return state_->add_segment(segment, access);
}

void RegistrationCache::remove_segment(const memory::Segment& segment) {
  state_->remove_segment(segment);
}

Result<std::shared_ptr<Registration>> RegistrationCache::find(ByteView memory, bool writable) {
  bool registered = false;
  state_->transfers.add();
  Result<std::shared_ptr<Registration>> found = state_->cover(memory, writable, &registered);
  if (registered) state_->transfers_registered.add();
  return found;
}

Result<std::shared_ptr<Registration>> RegistrationCache::acquire(ByteView memory, bool writable) {
  bool registered = false;
  return state_->cover(memory, writable, &registered);
}

std::shared_ptr<Registration> RegistrationCache::peek(ByteView memory, bool writable) const {
  if (memory.size == 0) return nullptr;
  if (auto known = state_->segment_of(memory, writable)) return known;
  return state_->on_demand_of(memory, writable);
}

RegistrationStats RegistrationCache::stats() const { return state_->stats(); }

Status too_large(const RegistrationRequest& request) {
  return Status::error(
      StatusCode::kResourceExhausted, {name_of(request), "", "verbs"},
      "the adapter registers at most " + bytes_text(request.max_bytes) + " at once (max_mr_size)",
      "transfer in smaller pieces, or make segment_bytes smaller");
}

Status registration_error(const RegistrationRequest& request, int error_number) {
  const auto fail = [&](StatusCode code, const char* cause, const char* remedy) {
    return Status::system_error(code, {name_of(request), "", "verbs"}, cause, error_number, remedy);
  };
  switch (error_number) {
    case ENOMEM:
    case EPERM:
      return locking_denied(request, error_number);
    case EFAULT:
      return fail(StatusCode::kInvalidArgument,
                  request.writable
                      ? "the memory is not mapped as a whole, is read-only, or belongs to a mapped "
                        "file or a device"
                      : "the memory is not mapped as a whole, or belongs to a mapped file or a "
                        "device",
                  "use ordinary memory: copy a mapped file's bytes into an array or memory of the "
                  "device first");
    case EOPNOTSUPP:
    case EINVAL:
      return fail(
          StatusCode::kUnsupported,
          "the adapter or the kernel cannot register this kind of memory (a file on a DAX or "
          "network file system, a device's memory)",
          "use ordinary memory: copy the bytes into an array or memory of the device first");
    case ENOSPC:
    case EAGAIN:
      return fail(StatusCode::kResourceExhausted, "the adapter's tables of registrations are full",
                  "hold fewer registrations at once, and larger ones");
    case EIO:
    case ENODEV:
      return fail(StatusCode::kUnavailable, "the adapter has failed or was removed",
                  "look at `dmesg`, then open the device again");
    default:
      return fail(StatusCode::kUnavailable, "the adapter does not register it",
                  "look at `dmesg` and at the adapter's driver");
  }
}

}  // namespace farwrite::fabric::verbs
