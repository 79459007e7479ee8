#include "core/trace.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/fork_guard.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/trace_ring.h"
#include "core/unique_fd.h"

namespace farwrite::core {
namespace internal {

constinit std::atomic<bool> tracing{false};

}  // namespace internal

namespace {

constexpr std::size_t kMaxNamedThreads = 4096;

// What a process records. Never destroyed: threads may outlive everything. A forked child makes its
// own, because its parent's locks and events are none of its business.
class Recorder {
 public:
  explicit Recorder(std::uint64_t generation) : generation_(generation) {}

  std::uint64_t generation() const { return generation_; }

  // A ring for this thread: of a thread that has ended, if there is one, so that their number is
  // bounded by how many run at once.
  TraceRing* take(std::uint32_t thread) {
    std::array<char, 16> name{};
    (void)::pthread_getname_np(::pthread_self(), name.data(), name.size());
    const Lock lock(mutex_);
    if (thread_names_.size() < kMaxNamedThreads) thread_names_[thread] = name.data();
    if (idle_.empty()) return &rings_.emplace_back();
    TraceRing* const ring = idle_.back();
    idle_.pop_back();
    return ring;
  }

  void give_back(TraceRing* ring) {
    const Lock lock(mutex_);
    idle_.push_back(ring);
  }

  TraceSnapshot snapshot() {
    TraceSnapshot snapshot;
    const Lock lock(mutex_);
    for (const TraceRing& ring : rings_) ring.copy_to(snapshot);
    snapshot.threads.assign(thread_names_.begin(), thread_names_.end());
    return snapshot;
  }

  // Whether events were added since the last call.
  bool has_news() {
    const Lock lock(mutex_);
    std::uint64_t added = 0;
    for (const TraceRing& ring : rings_) added += ring.added();
    return std::exchange(written_, added) != added;
  }

  void clear() {
    const Lock lock(mutex_);
    for (TraceRing& ring : rings_) ring.clear();
    written_.reset();
  }

  Mutex& writing() { return writing_; }

 private:
  const std::uint64_t generation_;
  Mutex mutex_{LockRank::kCore, 1};
  std::deque<TraceRing> rings_ FW_GUARDED_BY(mutex_);
  std::vector<TraceRing*> idle_ FW_GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::string> thread_names_ FW_GUARDED_BY(mutex_);
  std::optional<std::uint64_t> written_ FW_GUARDED_BY(mutex_);
  Mutex writing_{LockRank::kCore, 2};  // one file at a time
};

std::atomic<Recorder*> the_recorder{nullptr};
// A name once traced to. Never deleted: another thread may be reading it. The chain keeps all of
// them in sight of leak checkers.
struct TracedFile {
  std::string name;
  const TracedFile* earlier = nullptr;
};
std::atomic<const TracedFile*> all_files{nullptr};
std::atomic<const TracedFile*> the_file{nullptr};

Recorder& recorder() {
  Recorder* current = the_recorder.load(std::memory_order_acquire);
  while (current == nullptr || current->generation() != process_generation()) {
    auto fresh = std::make_unique<Recorder>(process_generation());
    if (the_recorder.compare_exchange_strong(current, fresh.get(), std::memory_order_acq_rel)) {
      return *fresh.release();
    }
  }
  return *current;
}

// This thread's place in the recorder.
struct Seat {
  Recorder* recorder = nullptr;
  TraceRing* ring = nullptr;
  std::uint32_t thread = 0;

  void take(Recorder& from) {
    recorder = &from;
    thread = static_cast<std::uint32_t>(::syscall(SYS_gettid));
    ring = from.take(thread);
  }
  ~Seat() {
    // In a forked child the lock may be held for ever.
    if (recorder != nullptr && recorder->generation() == process_generation()) {
      recorder->give_back(ring);
    }
  }
};

// "python train.py": the first words of the command line, without folders.
std::string process_name() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string word;
  std::string name;
  for (int words = 0; words < 3 && std::getline(file, word, '\0'); ++words) {
    if (words > 0) name += ' ';
    name += word.substr(word.find_last_of('/') + 1).substr(0, 40);
  }
  return name.empty() ? "farwrite" : name;
}

Status cannot_write(const std::string& file, int error) {
  return Status::system_error(StatusCode::kPermissionDenied, {"write the trace"},
                              "cannot write " + file, error,
                              "set FARWRITE_TRACE to a file in a folder that you may write to");
}

Status write_file(const std::string& file, std::string_view text) {
  const std::string part = file + ".part";  // readers never see half of it
  const UniqueFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return cannot_write(file, errno);
  while (!text.empty()) {
    const ssize_t written = ::write(fd.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot_write(file, errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::rename(part.c_str(), file.c_str()) != 0) return cannot_write(file, errno);
  return Status();
}

}  // namespace

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void trace(const TraceEvent& event) {
  if (!trace_on()) return;
  static thread_local Seat seat;
  Recorder& current = recorder();
  if (seat.recorder != &current) seat.take(current);
  seat.ring->add(event, seat.thread);
}

void start_trace_from_environment() {
  const char* const file = std::getenv("FARWRITE_TRACE");
  if (file != nullptr && file[0] != '\0' && !trace_on()) start_trace(file);
}

void start_trace(std::string file) {
  if (file.find("%p") == std::string::npos) file += ".%p";
  auto traced = std::make_unique<TracedFile>(TracedFile{std::move(file)});
  const TracedFile* none = nullptr;
  if (!the_file.compare_exchange_strong(none, traced.get())) return;
  TracedFile* const kept = traced.release();
  kept->earlier = all_files.load();
  while (!all_files.compare_exchange_weak(kept->earlier, kept)) {
  }
  internal::tracing.store(true, std::memory_order_relaxed);
  static const int registered = std::atexit(write_trace_or_warn);
  (void)registered;
}

Status stop_trace() {
  Status written = write_trace();
  internal::tracing.store(false, std::memory_order_relaxed);
  recorder().clear();
  the_file.store(nullptr, std::memory_order_release);
  return written;
}

std::string trace_file() {
  const TracedFile* const traced = the_file.load(std::memory_order_acquire);
  if (traced == nullptr) return {};
  const std::string pid = std::to_string(::getpid());
  std::string file = traced->name;
  for (std::size_t at = file.find("%p"); at != std::string::npos; at = file.find("%p", at)) {
    file.replace(at, 2, pid);
    at += pid.size();
  }
  return file;
}

std::string trace_json() {
  return to_json(recorder().snapshot(), static_cast<std::uint32_t>(::getpid()), process_name());
}

Status write_trace() {
  if (!trace_on()) return Status();
  Recorder& current = recorder();
  const Lock lock(current.writing());
  if (!current.has_news()) return Status();
  return write_file(trace_file(), trace_json());
}

void write_trace_or_warn() {
  if (const Status written = write_trace(); !written.ok()) {
    log(LogLevel::kWarning, written.message());
  }
}

}  // namespace farwrite::core
