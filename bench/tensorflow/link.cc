#include "link.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

namespace farwrite::bench {
namespace {

constexpr char kRing[] = "rpc ring";
constexpr std::chrono::seconds kPatience(30);
// The tag of a notification: so many bytes were written, or, with this bit, taken out.
constexpr std::uint32_t kTaken = std::uint32_t{1} << 31;
// Room goes back to the peer in so many parts of a ring.
constexpr std::uint64_t kParts = 8;

}  // namespace

Result<std::shared_ptr<Link>> Link::open(Channel channel, std::uint64_t ring_bytes) {
  Result<MemoryRegion> own = channel.allocate(ring_bytes);
  if (!own.ok()) return own.status();
  FARWRITE_RETURN_IF_ERROR(channel.publish(kRing, *own));
  Result<RemoteRegion> peers = channel.lookup(kRing, kPatience);
  if (!peers.ok()) return peers.status();
  // Not make_shared: the constructor is private.
  return std::shared_ptr<Link>(new Link(std::move(channel), *std::move(own), *std::move(peers)));
}

Link::Link(Channel channel, MemoryRegion own, RemoteRegion peers)
    : channel_(channel), ring_(std::move(own)), writer_(std::move(channel), std::move(peers)) {}

Result<ByteView> Link::peek(std::uint64_t most) {
  while (available_ == 0) FARWRITE_RETURN_IF_ERROR(take_notification());
  const std::uint64_t at = read_ % ring_.size();
  const std::uint64_t bytes = std::min({available_, ring_.size() - at, most});
  return ByteView(ring_.data() + at, static_cast<std::size_t>(bytes));
}

Status Link::take_notification() {
  Result<Notification> next = channel_.wait_notification();
  if (!next.ok()) return next.status();
  if ((next->tag & kTaken) != 0) {
    writer_.add_credit(next->tag & ~kTaken);
    return Status();
  }
  available_ += next->tag;
  if (available_ <= ring_.size()) return Status();
  return Status::error(StatusCode::kProtocolError, {"receive from a ring", channel_.peer_name()},
                       "the peer wrote " + std::to_string(available_) + " bytes into a ring of " +
                           std::to_string(ring_.size()),
                       "run the same release on both sides");
}

void Link::consume(std::uint64_t bytes) {
  read_ += bytes;
  available_ -= bytes;
  owed_ += bytes;
  if (owed_ < ring_.size() / kParts) return;
  // A failure ends the channel, which the next wait reports.
  (void)channel_.notify(kTaken | static_cast<std::uint32_t>(std::exchange(owed_, 0)));
}

Status Link::read(void* to, std::uint64_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    Result<ByteView> next = peek(bytes);
    if (!next.ok()) return next.status();
    std::memcpy(at, next->data, next->size);
    at += next->size;
    bytes -= next->size;
    consume(next->size);
  }
  return Status();
}

Status Link::skip(std::uint64_t bytes) {
  while (bytes > 0) {
    Result<ByteView> next = peek(bytes);
    if (!next.ok()) return next.status();
    bytes -= next->size;
    consume(next->size);
  }
  return Status();
}

}  // namespace farwrite::bench
