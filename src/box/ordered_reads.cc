#include "box/ordered_reads.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "farwrite/internal/late.h"
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
  reads_.push_back(
      std::make_shared<const PlannedRead>(PlannedRead{region, at, out, std::move(owner)}));
}

Status OrderedReads::wait(const core::Deadline& deadline) {
  std::vector<Completion> posted;
  posted.reserve(reads_.size());  // nothing may throw between a post and its keeper
  const auto post = [&] {
    for (const auto& read : reads_) {
      posted.push_back(client_.channel().read(read->out, read->region, read->at));
      posted.back().on_settled([read](const Status&) {});
    }
  };
  client_.drive(post, [&] { return std::ranges::all_of(posted, &Completion::done); }, deadline);
  Status outcome;
  // The last one first: when it is over the others are, and this thread was woken once.
  for (const Completion& read : std::views::reverse(posted)) {
    Status status = outcome_of(read, deadline);
    if (!status.ok()) outcome = std::move(status);
  }
  if (!outcome.ok()) return outcome;
  for (const WaitingCopy& copy : copies_) {
    copy_bytes(copy.out.data, copy.arrived.get(), copy.out.size);
  }
  return Status();
}

Status OrderedReads::outcome_of(const Completion& read, const core::Deadline& deadline) const {
  Status outcome = read.wait(deadline.remaining());
  if (read.done()) return outcome;
  client_.give_up(read);
  const Channel& channel = client_.channel();
  return internal::late({.operation = "read", .peer = channel.peer_name()}, channel.peer_state(),
                        "the other side has not sent the bytes in time",
                        "look whether it runs, or allow more time");
}

}  // namespace farwrite::box
