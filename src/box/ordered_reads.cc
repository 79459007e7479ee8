#include "box/ordered_reads.h"

#include <ranges>
#include <utility>

#include "box/settled.h"
#include "memory/copy.h"

namespace farwrite::box {

const std::uint64_t* OrderedReads::add(const RemoteRegion& region, std::uint64_t at,
                                       std::size_t count) {
  auto words = std::make_shared<std::vector<std::uint64_t>>(count);
  std::uint64_t* const first = words->data();
  add(region, at, {first, count * sizeof(std::uint64_t)}, std::move(words));
  return first;
}

void OrderedReads::add(const RemoteRegion& region, std::uint64_t at, MutableByteView out,
                       std::shared_ptr<const void> owner) {
  if (owner == nullptr) {
    copies_.push_back({out, std::make_shared_for_overwrite<std::byte[]>(out.size)});
    out.data = copies_.back().arrived.get();
    owner = copies_.back().arrived;
  }
  // What bytes need that may still move when this has gone: the region's end would let them change.
  const auto kept =
      std::make_shared<std::pair<std::shared_ptr<const void>, RemoteRegion>>(owner, region);
  posted_.reserve(posted_.size() + 1);  // nothing may throw between the post and its keeper
  posted_.push_back({channel_.read(out, region, at), std::move(owner)});
  posted_.back().completion.on_settled([kept](const Status&) {});
}

Status OrderedReads::wait(const core::Deadline& deadline) {
  Status outcome;
  // The last one first: when it is over the others are, and this thread was woken once.
  for (const PostedRead& read : std::views::reverse(posted_)) {
    Status status = wait_until_done(read.completion, deadline, nullptr, channel_);
    if (!status.ok()) outcome = std::move(status);
  }
  if (outcome.ok()) {
    for (const WaitingCopy& copy : copies_) {
      copy_bytes(copy.out.data, copy.arrived.get(), copy.out.size);
    }
  }
  return outcome;
}

}  // namespace farwrite::box
