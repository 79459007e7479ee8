#include "box/segment_directory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "box/epoch.h"
#include "core/mutex.h"
#include "core/sha256.h"

namespace farwrite::box {
namespace {

std::string text(const SegmentSpec& spec) {
  std::string shape = std::string(to_string(spec.type)) + " (";
  for (std::size_t i = 0; i < spec.dims.size(); ++i) {
    shape += (i == 0 ? "" : ", ") + std::to_string(spec.dims[i]);
  }
  return shape + ")";
}

// Whether a request to create `spec` may attach `other`, which has its name.
Status check_existing(const HostedSegment& other, const SegmentSpec& spec, Creation creation) {
  if (creation == Creation::kExclusive) {
    return Status::error(StatusCode::kAlreadyExists, {.operation = "create a segment"},
                         "'" + spec.name + "' exists",
                         "attach it, create it non-exclusively, or choose another name");
  }
  if (other.spec().type != spec.type || other.spec().dims != spec.dims) {
    return Status::error(
        StatusCode::kInvalidArgument, {.operation = "create a segment"},
        "'" + spec.name + "' exists as " + text(other.spec()) + ", not as " + text(spec),
        "attach it as it is, or choose another name");
  }
  return Status();
}

Status no_segment(std::string_view name) {
  return Status::error(StatusCode::kNotFound, {.operation = "find a segment"},
                       "the box has no segment '" + std::string(name) + "'",
                       "start the process that creates or publishes it, check the name (list() "
                       "returns those of the box), or give attach() or subscribe() a timeout");
}

Status no_segment(std::uint64_t key) {
  return Status::error(StatusCode::kNotFound, {.operation = "find a segment"},
                       "the box has no segment of key " + std::to_string(key) +
                           ": it was freed, or the key belongs to another box",
                       "attach the segment by its name");
}

}  // namespace

SegmentDirectory::ListedSegment* SegmentDirectory::find_listed(std::string_view name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &by_key_.at(found->second);
}

void SegmentDirectory::add(const Segment& segment, std::uint32_t attached) {
  const std::string& name = segment->spec().name;
  std::vector<Awaiting> found;
  {
    const core::Lock lock(mutex_);
    const auto left =
        std::partition(awaiting_.begin(), awaiting_.end(),
                       [&](const Awaiting& awaiting) { return awaiting.name != name; });
    std::move(left, awaiting_.end(), std::back_inserter(found));
    awaiting_.erase(left, awaiting_.end());
    by_key_[segment->key()] = {.segment = segment,
                               .attached = attached + static_cast<std::uint32_t>(found.size())};
    by_name_[name] = segment->key();
  }
  for (const Awaiting& awaiting : found) awaiting.found(segment);
}

Result<SegmentDirectory::Segment> SegmentDirectory::create(const SegmentSpec& spec,
                                                           Creation creation) {
  const Result<std::uint64_t> bytes = checked_bytes(spec);
  if (!bytes.ok()) return bytes.status();
  const core::Lock making(making_);
  std::uint64_t key = 0;
  {
    const core::Lock lock(mutex_);
    if (ListedSegment* const there = find_listed(spec.name)) {
      if (Status status = check_existing(*there->segment, spec, creation); !status.ok()) {
        return status;
      }
      ++there->attached;
      return there->segment;
    }
    while (key == 0 || by_key_.contains(key)) {
      core::random_bytes({reinterpret_cast<std::byte*>(&key), sizeof(key)});
    }
  }
  Result<Segment> made = HostedSegment::create(device_, spec, key, {.epoch = new_epoch()});
  if (made.ok()) add(made.value(), 1);
  return made;
}

Result<SegmentDirectory::Segment> SegmentDirectory::restore(
    const SegmentSpec& spec, std::uint64_t key, const VersionId& stored,
    const std::function<Status(MutableByteView)>& fill) {
  const core::Lock making(making_);
  const auto taken = [&] {
    const core::Lock lock(mutex_);
    return by_key_.contains(key) || find_listed(spec.name) != nullptr;
  };
  if (taken()) {
    return Status::error(StatusCode::kProtocolError, {.operation = "restore a snapshot"},
                         "it has two segments '" + spec.name + "', or two of one key",
                         "remove the file, and restore the one before");
  }
  Result<Segment> made = HostedSegment::create(
      device_, spec, key, {.epoch = new_epoch(stored.epoch), .version = stored.version});
  if (!made.ok()) return made;
  FARWRITE_RETURN_IF_ERROR(fill(made.value()->first_bytes()));
  add(made.value(), 0);
  return made;
}

Result<SegmentDirectory::Segment> SegmentDirectory::attach(std::string_view name) {
  const core::Lock lock(mutex_);
  if (ListedSegment* const listed = find_listed(name)) {
    ++listed->attached;
    return listed->segment;
  }
  return no_segment(name);
}

Result<SegmentDirectory::Segment> SegmentDirectory::find(std::string_view name) const {
  const core::Lock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return no_segment(name);
  return by_key_.at(found->second).segment;
}

Result<SegmentDirectory::Segment> SegmentDirectory::attach(std::uint64_t key) {
  const core::Lock lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return no_segment(key);
  ++found->second.attached;
  return found->second.segment;
}

Result<SegmentDirectory::Segment> SegmentDirectory::find(std::uint64_t key) const {
  const core::Lock lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return no_segment(key);
  return found->second.segment;
}

std::vector<SegmentDirectory::Segment> SegmentDirectory::all() const {
  const core::Lock lock(mutex_);
  std::vector<Segment> segments;
  segments.reserve(by_key_.size());
  for (const auto& [name, key] : by_name_) segments.push_back(by_key_.at(key).segment);
  return segments;
}

SegmentInfo SegmentDirectory::describe(const HostedSegment& segment) const {
  const VersionId id = segment.id();
  SegmentInfo info = {.spec = segment.spec(),
                      .key = segment.key(),
                      .bytes = segment.bytes(),
                      .epoch = id.epoch,
                      .version = id.version,
                      .age = segment.age()};
  const core::Lock lock(mutex_);
  if (const auto found = by_key_.find(segment.key()); found != by_key_.end()) {
    info.attached = found->second.attached;
  }
  return info;
}

std::uint64_t SegmentDirectory::await(const std::string& name,
                                      std::function<void(const Segment&)> found) {
  Segment there;
  {
    const core::Lock lock(mutex_);
    ListedSegment* const listed = find_listed(name);
    if (listed == nullptr) {
      awaiting_.push_back({.id = next_awaiting_, .name = name, .found = std::move(found)});
      return next_awaiting_++;
    }
    ++listed->attached;
    there = listed->segment;
  }
  found(there);
  return 0;
}

void SegmentDirectory::stop_awaiting(std::uint64_t id) {
  const core::Lock lock(mutex_);
  std::erase_if(awaiting_, [&](const Awaiting& awaiting) { return awaiting.id == id; });
}

void SegmentDirectory::detach(const Segment& segment) {
  {
    const core::Lock lock(mutex_);
    const auto found = by_key_.find(segment->key());
    if (found == by_key_.end() || --found->second.attached > 0) return;
    if (!segment->spec().temporary) return;
    // Under the same lock, so that no other client attaches it before it is gone.
    by_key_.erase(found);
    by_name_.erase(segment->spec().name);
  }
  segment->free();
}

Status SegmentDirectory::free(const Segment& segment) {
  {
    const core::Lock lock(mutex_);
    if (by_key_.erase(segment->key()) > 0) by_name_.erase(segment->spec().name);
  }
  if (segment->free()) return Status();
  return Status::error(StatusCode::kNotFound, {.operation = "free a segment"},
                       "'" + segment->spec().name + "' was freed already", "free it once");
}

void SegmentDirectory::clear() {
  std::map<std::uint64_t, ListedSegment> cleared;  // destroyed without the lock
  const core::Lock lock(mutex_);
  cleared.swap(by_key_);
  by_name_.clear();
}

}  // namespace farwrite::box
