#include "ring_writer.h"

#include <limits>
#include <utility>

namespace farwrite::experiments {

RingWriter::RingWriter(Channel channel, RemoteRegion ring, std::function<void()> later)
    : channel_(std::move(channel)),
      ring_(std::move(ring)),
      later_(std::move(later)),
      queue_(ring_.size(), channel_.peer_name()) {}

void RingWriter::write(std::vector<Piece> pieces) {
  add(std::move(pieces));
  pump(kBriefBytes);
}

void RingWriter::write_at_length(std::vector<Piece> pieces) {
  add(std::move(pieces));
  write_rest();
}

Status RingWriter::add_credit(std::uint64_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    FARWRITE_RETURN_IF_ERROR(queue_.add_credit(bytes));
  }
  write_rest();
  return Status();
}

void RingWriter::write_rest() { pump(std::numeric_limits<std::uint64_t>::max()); }

void RingWriter::add(std::vector<Piece> pieces) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Piece& piece : pieces) queue_.add(std::move(piece));
}

void RingWriter::pump(std::uint64_t most) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (pumping_) return;
  pumping_ = true;
  RingWrite write;
  std::uint64_t written = 0;
  while (written < most && queue_.next(write)) {
    written += write.bytes();
    lock.unlock();
    const Completion written_there = channel_.write_with_notify(
        ByteView(write.head.data(), static_cast<std::size_t>(write.head_bytes)), write.source.bytes,
        ring_, write.offset, static_cast<std::uint32_t>(write.bytes()));
    if (!written_there.settled()) {
      written_there.on_settled([owner = write.source.owner](const Status&) {});
    }
    write.source = {};  // owners go without the lock
    lock.lock();
  }
  pumping_ = false;
  const bool rest = queue_.has_next();
  lock.unlock();
  if (rest) later_();
}

}  // namespace farwrite::experiments
