// ServerState: what a Server's handles share: the device, the segments, and a session for each
// client.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "box/box.h"
#include "box/parallel_loop.h"
#include "box/segment_directory.h"
#include "box/session.h"
#include "box/snapshotter.h"
#include "box/workspace.h"
#include "core/fork_guard.h"
#include "core/mutex.h"
#include "device/device.h"

namespace farwrite::box {

// Thread-safe.
class ServerState {
 public:
  static Result<std::shared_ptr<ServerState>> serve(const ServerOptions& options);
  ~ServerState();
  ServerState(const ServerState&) = delete;
  ServerState& operator=(const ServerState&) = delete;

  const Device& device() const { return device_; }
  SegmentDirectory& table() { return table_; }
  SegmentInfo describe(const HostedSegment& segment) const;
  Workspace& workspace() { return *workspace_; }
  ParallelLoop& loop() { return loop_; }

  void count(const HostedSegment::ChangeResult& result);
  void count_refusal() { refused_.fetch_add(1, std::memory_order_relaxed); }
  void count_lease() { leases_granted_.fetch_add(1, std::memory_order_relaxed); }

  // As Server's. kFailedPrecondition after close(), which ends leases and writes the last snapshot;
  // a draft is then given back. Until then its bytes stay, whatever becomes of its segment.
  Result<Draft> draft(std::uint64_t key);
  Result<HostedSegment::ChangeResult> commit(const Draft& draft, bool new_epoch,
                                             std::uint64_t fence);
  void drop(const Draft& draft);
  const core::ForkGuard& fork_guard() const { return fork_guard_; }

  Status snapshot();
  ServerStats stats() const;
  std::string metrics_text() const;
  // As Server::close().
  Status close(std::chrono::nanoseconds timeout, bool last_snapshot = false);

 private:
  struct ServedClient {
    std::shared_ptr<Session> session;
    std::thread thread;
  };

  ServerState(ServerOptions options, Device device);
  Status start();
  Status start_snapshots();
  void accept_clients();
  void join_ended();
  // The draft's segment, from then on without the draft; null if it is no draft, or no longer.
  std::shared_ptr<HostedSegment> end_draft(const Draft& draft);

  const core::ForkGuard fork_guard_;
  const ServerOptions options_;
  Device device_;
  MemoryRegion pool_anchor_;
  SegmentDirectory table_;
  std::shared_ptr<Workspace> workspace_;
  ParallelLoop loop_;
  std::unique_ptr<Snapshotter> snapshotter_;  // null without a directory
  std::thread acceptor_;
  // One close() at a time. It runs handlers of its channels, and a handler may close a server.
  core::Mutex closing_{core::LockRank::kUserCode, 0, core::Siblings::kAnyOrder};
  // Shared by the calls of draft() and commit(), which close() lets end before it goes on. Taken
  // before mutex_.
  core::SharedMutex own_changes_{core::LockRank::kBox, 4};

  mutable core::Mutex mutex_{core::LockRank::kBox, 2};
  std::list<ServedClient> connections_ FW_GUARDED_BY(mutex_);
  // By the segment's key and the buffer's row.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::shared_ptr<HostedSegment>> drafts_
      FW_GUARDED_BY(mutex_);
  bool closed_ FW_GUARDED_BY(mutex_, own_changes_) = false;

  std::atomic<std::uint64_t> changes_ = 0;
  std::atomic<std::uint64_t> bytes_changed_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<std::uint64_t> switches_ = 0;
  std::atomic<std::uint64_t> copies_for_leases_ = 0;
  std::atomic<std::uint64_t> leases_granted_ = 0;
};

}  // namespace farwrite::box
