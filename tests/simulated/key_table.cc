#include "simulated/key_table.h"

#include <string>

namespace farwrite::fabric {

void KeyTable::add(std::uint64_t key, const std::shared_ptr<memory::Segment>& segment,
                   std::uint64_t offset, std::uint64_t length, Access access) {
  entries_[key] = Entry{segment, offset, length, access};
}

void KeyTable::remove(std::uint64_t key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) found->second.removed = true;
}

Result<KeyTable::Reach> KeyTable::reach(std::uint64_t key, std::uint64_t offset,
                                        std::uint64_t length, Access access,
                                        const ErrorContext& where, bool even_removed) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    return Status::error(StatusCode::kNotFound, where,
                         "no memory of the peer has key " + std::to_string(key),
                         "use a descriptor that the peer made for this channel");
  }
  const Entry& entry = found->second;
  std::shared_ptr<memory::Segment> segment = entry.segment.lock();
  if ((entry.removed && !even_removed) || segment == nullptr) {
    return Status::error(StatusCode::kFailedPrecondition, where,
                         "the region was closed by its owner", "ask the peer for a new region");
  }
  if (entry.access != access) {
    return Status::error(StatusCode::kPermissionDenied, where,
                         access == Access::kWrite ? "the peer's memory is read-only"
                                                  : "the peer's memory is write-only",
                         "ask the peer for a region with the access you need");
  }
  // Written so that no sum can wrap around: offset and length come from the peer.
  if (offset < entry.offset || offset - entry.offset > entry.length ||
      length > entry.length - (offset - entry.offset)) {
    return Status::error(StatusCode::kOutOfRange, where,
                         "offset " + std::to_string(offset) + " + " + std::to_string(length) +
                             " bytes leaves the memory of key " + std::to_string(key),
                         "stay inside the region");
  }
  std::byte* data = segment->base() + offset;
  return Reach{std::move(segment), data};
}

}  // namespace farwrite::fabric
