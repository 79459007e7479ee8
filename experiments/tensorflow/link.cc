#include "link.h"

#include <chrono>
#include <cstring>
#include <string>
#include <utility>

namespace farwrite::experiments {
namespace {

constexpr char kRing[] = "rpc ring";
constexpr std::chrono::seconds kPatience(30);
constexpr std::chrono::seconds kGlance(1);
// The tag of a notification: so many bytes were written, or, with this bit, taken out.
constexpr std::uint32_t kTaken = std::uint32_t{1} << 31;

}  // namespace

Result<std::shared_ptr<Link>> Link::open(Channel channel, std::uint64_t ring_bytes,
                                         Schedule schedule) {
  Result<MemoryRegion> own = channel.allocate(ring_bytes);
  if (!own.ok()) return own.status();
  FARWRITE_RETURN_IF_ERROR(channel.publish(kRing, *own));
  Result<RemoteRegion> peers = channel.lookup(kRing, kPatience);
  if (!peers.ok()) return peers.status();
  if (peers->size() == 0 || peers->size() > kMostRingBytes) {
    return Status::error(StatusCode::kProtocolError, {"open a ring", channel.peer_name()},
                         "the peer's ring has " + std::to_string(peers->size()) + " bytes",
                         "run the same release on both sides");
  }
  // Not make_shared: the constructor is private.
  return std::shared_ptr<Link>(
      new Link(std::move(channel), *std::move(own), *std::move(peers), std::move(schedule)));
}

Link::Link(Channel channel, MemoryRegion own, RemoteRegion peers, Schedule schedule)
    : channel_(channel),
      schedule_(std::move(schedule)),
      ring_(std::move(own)),
      reader_(ByteView(ring_.data(), ring_.size()), channel_.peer_name()),
      writer_(std::move(channel), std::move(peers),
              [this] { schedule_([self = shared_from_this()] { self->writer_.write_rest(); }); }) {}

Result<ByteView> Link::peek(std::uint64_t most) {
  while (reader_.available() == 0) FARWRITE_RETURN_IF_ERROR(take_notification());
  return reader_.peek(most);
}

Status Link::take_notification() {
  Result<Notification> next = channel_.wait_notification(kGlance);
  while (!next.ok() && next.status().code() == StatusCode::kDeadlineExceeded) {
    if (hurried_.load()) {
      return Status::error(StatusCode::kDeadlineExceeded, {"receive a reply", channel_.peer_name()},
                           "its call was cancelled, and the peer sent no more of it for a second",
                           "continue or restart the peer");
    }
    next = channel_.wait_notification(kGlance);
  }
  if (!next.ok()) return next.status();
  const std::uint32_t bytes = next->tag & ~kTaken;
  return (next->tag & kTaken) != 0 ? writer_.add_credit(bytes) : reader_.add(bytes);
}

void Link::consume(std::uint64_t bytes) {
  const std::uint64_t room = reader_.consume(bytes);
  // A failure ends the channel, which the next wait reports.
  if (room > 0) (void)channel_.notify(kTaken | static_cast<std::uint32_t>(room));
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

Status Link::append(std::string* to, std::uint64_t bytes) {
  while (bytes > 0) {
    Result<ByteView> next = peek(bytes);
    if (!next.ok()) return next.status();
    to->append(reinterpret_cast<const char*>(next->data), next->size);
    bytes -= next->size;
    consume(next->size);
  }
  return Status();
}

}  // namespace farwrite::experiments
