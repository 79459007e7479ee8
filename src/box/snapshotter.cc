#include "box/snapshotter.h"

#include <optional>
#include <utility>

#include "box/snapshot_reader.h"
#include "box/snapshot_writer.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/start_thread.h"
#include "core/with_memory.h"

namespace farwrite::box {

Result<std::unique_ptr<Snapshotter>> Snapshotter::open(const std::string& directory,
                                                       SegmentDirectory& table) {
  Result<std::shared_ptr<SnapshotDirectory>> opened = SnapshotDirectory::open(directory);
  if (!opened.ok()) return opened.status();
  // Not make_unique: the constructor is private.
  return std::unique_ptr<Snapshotter>(new Snapshotter(*std::move(opened), table));
}

Status Snapshotter::check_empty() const {
  Result<std::vector<SnapshotName>> names = directory_->list();
  if (!names.ok()) return names.status();
  if (names->empty()) return Status();
  return Status::error(StatusCode::kFailedPrecondition, {.operation = "serve a box"},
                       directory_->path() +
                           " holds snapshots, which those of this server would "
                           "replace",
                       "restore them (--restore), move them away, or name another directory");
}

Status Snapshotter::restore() {
  Result<SnapshotReader> reader = SnapshotReader::open(*directory_);
  if (!reader.ok()) return reader.status();
  for (const std::string& damaged : reader->damaged()) {
    core::log(core::LogLevel::kWarning, "box: a damaged snapshot is left out: " + damaged);
  }
  while (true) {
    Result<std::optional<SnapshotEntry>> entry = reader->next();
    if (!entry.ok()) return entry.status();
    if (!entry.value().has_value()) return Status();
    const SnapshotEntry& found = *entry.value();
    const Result<SegmentDirectory::Segment> segment =
        table_.restore(found.spec, found.key, found.id,
                       [&](MutableByteView bytes) { return reader->read(bytes); });
    if (!segment.ok()) return segment.status();
  }
}

Status Snapshotter::write_all() {
  Result<SnapshotWriter> writer = SnapshotWriter::begin(directory_);
  if (!writer.ok()) return writer.status();
  for (const SegmentDirectory::Segment& segment : table_.all()) {
    if (segment->spec().temporary) continue;
    SnapshotEntry entry = {
        .spec = segment->spec(), .key = segment->key(), .id = {}, .bytes = segment->bytes()};
    const auto add = [&](ByteView bytes, const VersionId& id) {
      entry.id = id;
      return writer->add(entry, bytes);
    };
    Status status;
    Result<Pin> pin = segment->pin([] { return false; });
    if (pin.ok()) {
      status = add(pin->bytes(), pin->id());
    } else if (pin.status().code() == StatusCode::kResourceExhausted) {
      // Without a second buffer, changes of the segment wait until it is written.
      status = segment->hold_still(add);
    } else {
      status = pin.status();
    }
    // Freed meanwhile.
    if (status.code() == StatusCode::kNotFound) continue;
    if (!status.ok()) return status;
  }
  return writer->commit();
}

Status Snapshotter::write() {
  const core::Lock lock(writing_);
  if (directory_ == nullptr) {
    return Status::error(StatusCode::kFailedPrecondition, {.operation = "write a snapshot"},
                         "the server is closed", "serve again");
  }
  Status status;
  Status room = core::with_memory({.operation = "write a snapshot"}, "its records",
                                  [&] { status = write_all(); });
  if (!room.ok()) status = std::move(room);
  (status.ok() ? written_ : failures_).fetch_add(1, std::memory_order_relaxed);
  return status;
}

Status Snapshotter::start(std::chrono::nanoseconds period) {
  return core::start_thread(thread_, {.operation = "serve a box"}, [this, period] {
    core::Lock lock(mutex_);
    while (!stopping_.wait_for(mutex_, period, [this]() FW_REQUIRES(mutex_) { return stop_; })) {
      lock.unlock();
      if (const Status status = write(); !status.ok()) {
        core::log(core::LogLevel::kError, "box: no snapshot was written: " + status.message());
      }
      lock.lock();
    }
  });
}

void Snapshotter::stop() {
  {
    const core::Lock lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
  const core::Lock lock(writing_);
  directory_ = nullptr;
}

}  // namespace farwrite::box
