#include "stage.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <ctime>
#include <new>

#include "clock.h"

namespace farwrite::bench {
namespace {

constexpr std::chrono::seconds kMeetingTimeout{60};
constexpr ErrorContext kWhere{.operation = "bench", .peer = {}, .fabric = {}};

}  // namespace

// All zero is the initial state, and a new memfd is all zero. Either process may be first.
struct Stage::Control {
  alignas(128) std::atomic<std::uint32_t> arrivals;
  alignas(128) std::atomic<std::uint32_t> given_up;
  std::array<RawLine, kMaxLanes> to_receiver;
  std::array<RawLine, kMaxLanes> to_sender;
  std::array<std::int64_t, kMaxOneWaySamples> began;
  alignas(4096) std::array<std::byte, kEchoBytes> echo;
};

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  const timespec timeout{.tv_sec = 0, .tv_nsec = 100'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint64_t Stage::bytes_for(std::uint64_t pool_bytes) { return sizeof(Control) + pool_bytes; }

Result<std::byte*> map_populated(int fd, std::uint64_t bytes) {
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return Status::system_error(StatusCode::kResourceExhausted, kWhere,
                                "shared memory cannot be mapped", errno, "free some memory");
  }
  // The same advice and prefault as for Farwrite's segments; otherwise the limit would be too low.
  ::madvise(base, bytes, MADV_HUGEPAGE);
  if (::madvise(base, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
    const int error = errno;
    ::munmap(base, bytes);
    return Status::system_error(StatusCode::kResourceExhausted, kWhere,
                                "shared memory cannot be populated", error, "free some memory");
  }
  return static_cast<std::byte*>(base);
}

Result<std::unique_ptr<Stage>> Stage::map(int fd, std::uint64_t pool_bytes) {
  auto base = map_populated(fd, bytes_for(pool_bytes));
  if (!base.ok()) return base.status();
  return std::unique_ptr<Stage>(new Stage(base.value(), pool_bytes));
}

Stage::Stage(std::byte* base, std::uint64_t pool_bytes)
    : control_(reinterpret_cast<Control*>(base)),
      pool_(base + sizeof(Control)),
      pool_bytes_(pool_bytes) {}

Stage::~Stage() { ::munmap(static_cast<void*>(control_), bytes_for(pool_bytes_)); }

Status Stage::meet() {
  std::atomic<std::uint32_t>& arrivals = control_->arrivals;
  const std::uint32_t mine = arrivals.fetch_add(1) + 1;
  const std::uint32_t all = (mine + 1) / 2 * 2;  // each meeting adds two
  if (mine == all) futex_wake(arrivals);
  const Deadline deadline(kMeetingTimeout);
  for (std::uint32_t seen = mine; seen < all; seen = arrivals.load()) {
    if (given_up()) {
      return Status::error(StatusCode::kCancelled, kWhere, "the other process gave up",
                           "read its own error");
    }
    if (deadline.expired()) {
      return Status::error(StatusCode::kDeadlineExceeded, kWhere,
                           "the other process did not arrive within 60 s", "run it again");
    }
    futex_wait(arrivals, seen);
  }
  return Status();
}

void Stage::give_up() {
  control_->given_up.store(1);
  futex_wake(control_->arrivals);
}

bool Stage::given_up() const { return control_->given_up.load(std::memory_order_relaxed) != 0; }

RawLine& Stage::to_receiver(std::uint32_t lane) const { return control_->to_receiver[lane]; }

RawLine& Stage::to_sender(std::uint32_t lane) const { return control_->to_sender[lane]; }

std::int64_t& Stage::began(std::size_t sample) const { return control_->began[sample]; }

std::byte* Stage::echo() const { return control_->echo.data(); }

}  // namespace farwrite::bench
