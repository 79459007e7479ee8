// Snapshotter: writes the segments of a server to its directory, now and then, while it serves.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "box/segment_directory.h"
#include "box/snapshot_directory.h"
#include "core/mutex.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Thread-safe.
class Snapshotter {
 public:
  // Locks the directory. `table` outlives the object.
  static Result<std::unique_ptr<Snapshotter>> open(const std::string& directory,
                                                   SegmentDirectory& table);
  ~Snapshotter() { stop(); }
  Snapshotter(const Snapshotter&) = delete;
  Snapshotter& operator=(const Snapshotter&) = delete;

  // kFailedPrecondition if the directory has snapshots: those of a server that starts without them
  // would replace them.
  Status check_empty() const;
  // Makes the segments of the newest snapshot that is whole. Damaged ones are logged.
  Status restore();
  // Writes a snapshot: of each segment one version, of all of them not the same moment. Temporary
  // segments are left out. A failure keeps the snapshots before it.
  Status write();
  // Writes one every `period` from now on, in a thread. A failed snapshot is logged, and the next
  // one tried. kResourceExhausted if there is no thread.
  Status start(std::chrono::nanoseconds period);
  // Unlocks the directory, so that another server can have it. Nothing is written after that.
  void stop();

  std::uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  std::uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }

 private:
  Snapshotter(std::shared_ptr<SnapshotDirectory> directory, SegmentDirectory& table)
      : directory_(std::move(directory)), table_(table) {}
  Status write_all();

  std::shared_ptr<SnapshotDirectory> directory_;
  SegmentDirectory& table_;
  core::Mutex writing_{core::LockRank::kBox, 3};  // one snapshot at a time
  std::atomic<std::uint64_t> written_ = 0;
  std::atomic<std::uint64_t> failures_ = 0;

  core::Mutex mutex_{core::LockRank::kBox};
  core::CondVar stopping_;
  bool stop_ FW_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace farwrite::box
