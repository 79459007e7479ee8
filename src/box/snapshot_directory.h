// SnapshotDirectory: the directory that one server keeps its snapshots in.
//
// It holds `snapshot-<20 digits>.farwrite`, the larger number being the newer one, and partial
// files of snapshots on their way. A lock on the file `.lock` keeps every other server out, also of
// other processes. The kernel drops the lock when the process ends. The file stays.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/fork_guard.h"
#include "core/mutex.h"
#include "core/unique_fd.h"
#include "farwrite/status.h"

namespace farwrite::box {

// How many snapshots a directory keeps unless a caller says otherwise.
inline constexpr std::uint32_t kKeptSnapshots = 2;

// A file under its final name.
struct SnapshotName {
  std::uint64_t sequence = 0;
  std::string path;
};

// A file that SnapshotWriter fills.
struct PartialSnapshot {
  core::UniqueFd file;
  std::string path;
};

// Thread-safe. Every error names the path, the cause and the remedy.
class SnapshotDirectory {
 public:
  // Locks the directory for the life of the object. kAlreadyExists while another server has it,
  // kNotFound if there is no such directory, kPermissionDenied if files cannot be created there.
  static Result<std::shared_ptr<SnapshotDirectory>> open(const std::string& path);

  ~SnapshotDirectory();
  SnapshotDirectory(const SnapshotDirectory&) = delete;
  SnapshotDirectory& operator=(const SnapshotDirectory&) = delete;

  // Absolute.
  const std::string& path() const { return path_; }
  // The snapshots, damaged ones included, newest first.
  Result<std::vector<SnapshotName>> list() const;

  // Creates an empty partial file. Removes first what ended processes left. If the directory, or
  // its lock, was replaced meanwhile, it locks the new one, which must hold no snapshots of others.
  Result<PartialSnapshot> create_partial();
  // Renames the whole and synchronized partial file to the next snapshot, and removes the snapshots
  // that are older than the newest `keep` (at least 1). On failure every older snapshot stays, and
  // the new one does not exist; the partial file is still the caller's to drop. Returns the path.
  Result<std::string> publish(const std::string& partial, std::uint32_t keep);
  // Removes a partial file. In a forked child, whose parent still fills the file, it does nothing.
  void drop_partial(const std::string& partial);

 private:
  SnapshotDirectory(std::string path, core::UniqueFd lock, core::UniqueFd folder)
      : path_(std::move(path)), lock_(std::move(lock)), folder_(std::move(folder)) {}

  Result<std::vector<std::string>> names() const;
  Status keep_lock() FW_REQUIRES(mutex_);
  Status remove_left_partials() FW_REQUIRES(mutex_);
  Status synchronize() const;

  const std::string path_;
  core::UniqueFd lock_ FW_GUARDED_BY(mutex_);
  core::UniqueFd folder_ FW_GUARDED_BY(mutex_);  // which `.lock` is in
  core::ForkGuard guard_;
  core::Mutex mutex_{core::LockRank::kBox};
  std::set<std::string> partials_
      FW_GUARDED_BY(mutex_);  // paths of files that writers of this process fill
};

// The failure of a system call on a file or directory of snapshots: code and remedy follow from
// `error_number`. `cause` names the path: "/snapshots/a cannot be written".
Status snapshot_io_error(std::string_view operation, const std::string& cause, int error_number);

}  // namespace farwrite::box
