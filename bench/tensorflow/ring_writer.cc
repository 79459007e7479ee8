#include "ring_writer.h"

#include <utility>

namespace farwrite::bench {

RingWriter::RingWriter(Channel channel, RemoteRegion ring)
    : channel_(std::move(channel)),
      ring_(std::move(ring)),
      queue_(ring_.size(), channel_.peer_name()) {}

void RingWriter::write(std::vector<Piece> pieces) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Piece& piece : pieces) queue_.add(std::move(piece));
  }
  pump();
}

Status RingWriter::add_credit(std::uint64_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    FARWRITE_RETURN_IF_ERROR(queue_.add_credit(bytes));
  }
  pump();
  return Status();
}

void RingWriter::pump() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (pumping_) return;
  pumping_ = true;
  RingWrite write;
  while (queue_.next(write)) {
    lock.unlock();
    const Completion written = channel_.write_with_notify(
        ByteView(write.head.data(), static_cast<std::size_t>(write.head_bytes)), write.source.bytes,
        ring_, write.offset, static_cast<std::uint32_t>(write.bytes()));
    if (!written.settled()) written.on_settled([owner = write.source.owner](const Status&) {});
    write.source = {};  // owners go without the lock
    lock.lock();
  }
  pumping_ = false;
}

}  // namespace farwrite::bench
