#include "box/snapshot_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "box/whole_io.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/sha256.h"

namespace farwrite::box {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLock = ".lock";
constexpr std::string_view kPrefix = "snapshot-";
constexpr std::string_view kSuffix = ".farwrite";
constexpr std::size_t kDigits = 20;
constexpr std::string_view kPartialPrefix = ".partial-";
constexpr std::uint64_t kLastSequence = std::numeric_limits<std::uint64_t>::max();

std::string name_of(std::uint64_t sequence) {
  const std::string digits = std::to_string(sequence);
  std::string name(kPrefix);
  name.append(kDigits - digits.size(), '0').append(digits).append(kSuffix);
  return name;
}

// Nothing for a name that is not a snapshot's.
std::optional<std::uint64_t> sequence_of(std::string_view name) {
  if (name.size() != kPrefix.size() + kDigits + kSuffix.size() || !name.starts_with(kPrefix) ||
      !name.ends_with(kSuffix)) {
    return std::nullopt;
  }
  const char* const begin = name.data() + kPrefix.size();
  std::uint64_t sequence = 0;
  const auto [end, error] = std::from_chars(begin, begin + kDigits, sequence);
  if (error != std::errc() || end != begin + kDigits) return std::nullopt;
  return sequence;
}

std::string random_name() {
  std::array<std::byte, 8> bits{};
  core::random_bytes({bits.data(), bits.size()});
  std::string name(kPartialPrefix);
  for (const std::byte byte : bits) {
    for (const std::byte digit : {byte >> 4, byte & std::byte{15}}) {
      name += "0123456789abcdef"[std::to_integer<std::size_t>(digit)];
    }
  }
  return name;
}

struct Advice {
  StatusCode code;
  std::string_view remedy;
};

Advice advice_on(int error_number) {
  switch (error_number) {
    case ENOENT:
      return {StatusCode::kNotFound, "create the directory, or name another one"};
    case ENOTDIR:
      return {StatusCode::kNotFound, "name a directory, not a path below a file"};
    case EACCES:
    case EPERM:
    case EROFS:
      return {StatusCode::kPermissionDenied,
              "let this user create files in the directory, or name another one"};
    case ENOSPC:
    case EDQUOT:
      return {StatusCode::kResourceExhausted,
              "free space on that file system: it must hold one snapshot more than are kept"};
    case EFBIG:
      return {StatusCode::kResourceExhausted,
              "raise `ulimit -f`, or name a directory on a file system for larger files"};
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return {StatusCode::kResourceExhausted, "raise `ulimit -n`, or free memory"};
    default:
      return {StatusCode::kUnavailable, "check the disk, or name another directory"};
  }
}

// The number that the lock's holder wrote down. For people: it is 0 while the holder writes it.
std::string holder_of(int lock) {
  std::array<char, 20> text{};
  std::size_t size = 0;
  if (read_whole(lock, 0, {text.data(), text.size()}, size) != 0) return "";
  std::string_view number(text.data(), size);
  number = number.substr(0, number.find_first_not_of("0123456789"));
  return number.empty() ? "" : " (process " + std::string(number) + ")";
}

// Without the number the lock works, so a full disk is no reason to fail.
void write_holder(int lock) {
  const std::string number = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock, 0) == 0) (void)write_whole(lock, {number.data(), number.size()});
}

int lock_now(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

std::string lock_in(const std::string& directory) { return directory + "/" + std::string(kLock); }

// The file `.lock` of the directory, locked.
Result<core::UniqueFd> lock_directory(std::string_view operation, const std::string& directory) {
  const std::string file = lock_in(directory);
  core::UniqueFd lock(
      ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
  if (!lock.valid()) return snapshot_io_error(operation, file + " cannot be opened", errno);
  const int refused = lock_now(lock.get());
  if (refused == EWOULDBLOCK) {
    return Status::error(
        StatusCode::kAlreadyExists, {operation},
        "another server" + holder_of(lock.get()) + " keeps its snapshots in " + directory,
        "name another directory, or end that server");
  }
  if (refused != 0) return snapshot_io_error(operation, file + " cannot be locked", refused);
  write_holder(lock.get());
  return lock;
}

// Whether `fd` is what has that path now. While it is open, nothing else gets its number.
bool is_at(int fd, const std::string& path) {
  struct stat held{}, found{};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &found) == 0 &&
         held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

}  // namespace

Status snapshot_io_error(std::string_view operation, const std::string& cause, int error_number) {
  const Advice advice = advice_on(error_number);
  return Status::system_error(advice.code, {operation}, cause, error_number, advice.remedy);
}

Result<std::shared_ptr<SnapshotDirectory>> SnapshotDirectory::open(const std::string& path) {
  constexpr std::string_view kOperation = "open the directory of snapshots";
  std::error_code error;
  // The server may change its working directory later.
  const std::string absolute = fs::absolute(path, error).string();
  if (error) return snapshot_io_error(kOperation, path + " has no absolute path", error.value());
  Result<core::UniqueFd> lock = lock_directory(kOperation, absolute);
  if (!lock.ok()) return lock.status();
  core::UniqueFd folder(::open(absolute.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return snapshot_io_error(kOperation, absolute + " cannot be opened", errno);
  return std::shared_ptr<SnapshotDirectory>(
      new SnapshotDirectory(absolute, *std::move(lock), std::move(folder)));
}

Status SnapshotDirectory::keep_lock() {
  constexpr std::string_view kOperation = "begin a snapshot";
  if (is_at(lock_.get(), lock_in(path_))) return Status();
  Result<core::UniqueFd> lock = lock_directory(kOperation, path_);
  if (!lock.ok()) return lock.status();
  if (!is_at(folder_.get(), path_)) {
    auto found = list();
    if (!found.ok()) return found.status();
    if (!found->empty()) {
      return Status::error(StatusCode::kAlreadyExists, {kOperation},
                           path_ +
                               " is another directory than at the start, and holds snapshots, "
                               "which those of this server would replace",
                           "move them away");
    }
    core::UniqueFd folder(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) return snapshot_io_error(kOperation, path_ + " cannot be opened", errno);
    folder_ = std::move(folder);
  }
  lock_ = *std::move(lock);
  return Status();
}

SnapshotDirectory::~SnapshotDirectory() {
  // A forked child shares the lock. Closing the descriptor there keeps it; here, a child that still
  // lives must not keep the next server out.
  if (!guard_.in_forked_child()) (void)::flock(lock_.get(), LOCK_UN);
}

Result<std::vector<std::string>> SnapshotDirectory::names() const {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(path_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (!error) return names;
  return snapshot_io_error("list snapshots", path_ + " cannot be read", error.value());
}

Result<std::vector<SnapshotName>> SnapshotDirectory::list() const {
  auto all = names();
  if (!all.ok()) return all.status();
  std::vector<SnapshotName> found;
  for (const std::string& name : *all) {
    if (const auto sequence = sequence_of(name)) found.push_back({*sequence, path_ + "/" + name});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.sequence > b.sequence; });
  return found;
}

Status SnapshotDirectory::remove_left_partials() {
  auto all = names();
  if (!all.ok()) return all.status();
  for (const std::string& name : *all) {
    const std::string path = path_ + "/" + name;
    if (!name.starts_with(kPartialPrefix) || partials_.contains(path)) continue;
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) continue;
    return snapshot_io_error("remove what an ended server left", path + " cannot be removed",
                             errno);
  }
  return Status();
}

Result<PartialSnapshot> SnapshotDirectory::create_partial() {
  FARWRITE_RETURN_IF_ERROR(guard_.check("begin a snapshot"));
  const core::Lock held(mutex_);
  FARWRITE_RETURN_IF_ERROR(keep_lock());
  FARWRITE_RETURN_IF_ERROR(remove_left_partials());
  PartialSnapshot partial;
  partial.path = path_ + "/" + random_name();
  partial.file.reset(
      ::open(partial.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!partial.file.valid()) {
    return snapshot_io_error("begin a snapshot", partial.path + " cannot be created", errno);
  }
  partials_.insert(partial.path);
  return partial;
}

Status SnapshotDirectory::synchronize() const {
  const core::UniqueFd directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // EINVAL: a file system that has no such step.
  if (directory.valid() && (::fsync(directory.get()) == 0 || errno == EINVAL)) return Status();
  return snapshot_io_error("commit a snapshot", path_ + " cannot be synchronized", errno);
}

Result<std::string> SnapshotDirectory::publish(const std::string& partial, std::uint32_t keep) {
  FARWRITE_RETURN_IF_ERROR(guard_.check("commit a snapshot"));
  const core::Lock held(mutex_);
  auto before = list();
  if (!before.ok()) return before.status();
  const std::uint64_t newest = before->empty() ? 0 : before->front().sequence;
  if (newest == kLastSequence) {
    return Status::error(StatusCode::kResourceExhausted, {"commit a snapshot"},
                         before->front().path + " has the last number that there is",
                         "rename or remove that file");
  }
  std::string path = path_ + "/" + name_of(newest + 1);
  if (::rename(partial.c_str(), path.c_str()) != 0) {
    return snapshot_io_error("commit a snapshot", partial + " cannot be renamed to " + path, errno);
  }
  partials_.erase(partial);
  const Status durable = synchronize();
  if (!durable.ok()) {
    ::unlink(path.c_str());
    return durable;
  }
  for (std::size_t i = std::max(keep, 1U) - 1; i < before->size(); ++i) {
    const std::string& old = (*before)[i].path;
    if (::unlink(old.c_str()) == 0 || errno == ENOENT) continue;
    // The new snapshot is on the disk all the same.
    const Status failed =
        snapshot_io_error("remove an old snapshot", old + " cannot be removed", errno);
    core::log(core::LogLevel::kWarning, failed.message());
  }
  return path;
}

void SnapshotDirectory::drop_partial(const std::string& partial) {
  if (guard_.in_forked_child()) return;
  const core::Lock held(mutex_);
  if (partials_.erase(partial) != 0) ::unlink(partial.c_str());
}

}  // namespace farwrite::box
