// SegmentDirectory: the segments of a server, by name and by key, and how many have them attached.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "box/box.h"
#include "box/hosted_segment.h"
#include "core/mutex.h"
#include "device/device.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Thread-safe.
class SegmentDirectory {
 public:
  using Segment = std::shared_ptr<HostedSegment>;

  explicit SegmentDirectory(Device device) : device_(std::move(device)) {}

  // Attaches a new segment, or with kOpenOrCreate the one of that name, type and shape.
  // kAlreadyExists, kInvalidArgument, kResourceExhausted.
  Result<Segment> create(const SegmentSpec& spec, Creation creation);
  // Adds one out of a snapshot, with its key, its version and an epoch above its own; `fill` gives
  // it its bytes. Nothing has it attached.
  Result<Segment> restore(const SegmentSpec& spec, std::uint64_t key, const VersionId& stored,
                          const std::function<Status(MutableByteView)>& fill);

  // Finds and attaches in one step: no other client's detach() frees the segment in between. Every
  // attachment ends with detach(). kNotFound.
  Result<Segment> attach(std::string_view name);
  Result<Segment> attach(std::uint64_t key);
  // Without an attachment. kNotFound.
  Result<Segment> find(std::uint64_t key) const;
  Result<Segment> find(std::string_view name) const;
  std::vector<Segment> all() const;
  SegmentInfo describe(const HostedSegment& segment) const;

  // Calls `found` once, with a segment that it attaches, when one of that name exists; in this
  // thread if it does. Returns what stop_awaiting() takes; 0 if it was called.
  std::uint64_t await(const std::string& name, std::function<void(const Segment&)> found);
  void stop_awaiting(std::uint64_t id);

  // Ends one attachment, and frees a temporary segment with its last one.
  void detach(const Segment& segment);
  // kNotFound if it was freed already.
  Status free(const Segment& segment);
  // Lets go of all segments, once nothing uses them by name or key any more.
  void clear();

 private:
  struct ListedSegment {
    Segment segment = {};
    std::uint32_t attached = 0;
  };
  struct Awaiting {
    std::uint64_t id;
    std::string name;
    std::function<void(const Segment&)> found;
  };

  // With `attached` attachments, and one for each that awaits the name.
  void add(const Segment& segment, std::uint32_t attached);
  // With mutex_; null without one.
  ListedSegment* find_listed(std::string_view name) FW_REQUIRES(mutex_);

  Device device_;
  // Held while a segment is made, so that a name is made once; taken before mutex_.
  core::Mutex making_{core::LockRank::kBox, 3};
  mutable core::Mutex mutex_{core::LockRank::kBox};
  std::map<std::uint64_t, ListedSegment> by_key_ FW_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t, std::less<>> by_name_ FW_GUARDED_BY(mutex_);
  std::vector<Awaiting> awaiting_ FW_GUARDED_BY(mutex_);
  std::uint64_t next_awaiting_ FW_GUARDED_BY(mutex_) = 1;
};

}  // namespace farwrite::box
