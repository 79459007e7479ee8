#include "fabric/tcp/lane_receiver.h"

#include <algorithm>
#include <cstring>

#include "core/mutex.h"
#include "core/with_memory.h"

namespace farwrite::fabric::tcp {
namespace {

// What one look may take, so that other lanes of the same poller get their turn.
constexpr std::uint64_t kLookBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kLookFrames = 512;
constexpr std::size_t kScratchBytes = 64 * 1024;
constexpr std::uint64_t kLargePayload = 64 * 1024;

// For what is thrown away. Nothing reads it.
std::byte* scratch() {
  static thread_local std::array<std::byte, kScratchBytes> bytes;
  return bytes.data();
}

}  // namespace

LaneReceiver::Look LaneReceiver::look(FrameHandler& handler) {
  Look look;
  std::uint64_t received = 0;
  frames_ = 0;
  while (true) {
    look.broken = handle_staged(handler);
    if (!look.broken.ok() || look.ended) return look;
    if (received >= kLookBytes || frames_ >= kLookFrames) {
      look.more = true;
      return look;
    }
    std::size_t offered = 0;
    const core::ByteStream::Moved moved = receive(offered);
    if (moved.state == core::ByteStream::State::kEnded) {
      look.ended = true;
      look.error = moved.error;
      return look;
    }
    if (moved.state == core::ByteStream::State::kWait) return look;
    received += moved.bytes;
    if (moved.bytes < offered) {
      // The kernel had no more: asking again would cost another call.
      look.broken = handle_staged(handler);
      look.more = stream_.has_unread();
      return look;
    }
  }
}

core::ByteStream::Moved LaneReceiver::receive(std::size_t& offered) {
  // All that is staged is handled, but for the beginning of a header.
  std::memmove(stage_.data(), stage_.data() + consumed_, staged_ - consumed_);
  staged_ -= consumed_;
  consumed_ = 0;
  // Behind a large payload comes another one, mostly: its header alone is staged, so that all of
  // the payload goes straight into place.
  const std::size_t room = large_ ? kFrameHeaderBytes : stage_.size();
  iovec rest{stage_.data() + staged_, room - std::min(staged_, room)};
  if (!in_frame_) {
    offered = rest.iov_len;
    const core::ByteStream::Moved moved = stream_.receive(&rest, 1);
    staged_ += moved.bytes;
    return moved;
  }
  const core::Lock lock(landing_);
  std::uint64_t left = total_ - done_;
  std::byte* to = nullptr;
  if (collects_) {
    to = body_.data() + done_;
  } else if (destination_.data != nullptr) {
    to = destination_.data + done_;
  } else {
    to = scratch();
    left = std::min<std::uint64_t>(left, kScratchBytes);
  }
  const bool whole = left == total_ - done_;
  const std::array<iovec, 2> pieces = {iovec{to, static_cast<std::size_t>(left)}, rest};
  offered = pieces[0].iov_len + (whole ? rest.iov_len : 0);
  const core::ByteStream::Moved moved = stream_.receive(pieces.data(), whole ? 2 : 1);
  const std::size_t placed = std::min<std::size_t>(moved.bytes, left);
  done_ += placed;
  staged_ += moved.bytes - placed;
  return moved;
}

Status LaneReceiver::handle_staged(FrameHandler& handler) {
  while (true) {
    if (!in_frame_) {
      if (staged_ - consumed_ < kFrameHeaderBytes) return Status();
      FARWRITE_RETURN_IF_ERROR(begin_frame(handler));
    }
    const std::size_t take = std::min<std::uint64_t>(total_ - done_, staged_ - consumed_);
    if (take > 0) {
      place(stage_.data() + consumed_, take);
      consumed_ += take;
      done_ += take;
    }
    if (done_ < total_) return Status();
    bool landed = false;
    {
      const core::Lock lock(landing_);
      landed = destination_.data != nullptr;
      destination_ = Destination();
    }
    in_frame_ = false;
    large_ = total_ >= kLargePayload;
    ++frames_;
    FARWRITE_RETURN_IF_ERROR(handler.finish(header_, landed, std::move(body_)));
    body_ = {};
  }
}

Status LaneReceiver::begin_frame(FrameHandler& handler) {
  auto header = FrameHeader::from_bytes(stage_.data() + consumed_);
  if (!header.ok()) return header.status();
  consumed_ += kFrameHeaderBytes;
  header_ = *header;
  total_ = header_.payload_bytes();
  done_ = 0;
  in_frame_ = true;
  collects_ = header_.type != FrameType::kWrite && header_.type != FrameType::kReadReply;
  if (collects_) {
    return core::with_memory({"receive", {}, "tcp"}, "a message of the peer",
                             [this] { body_.resize(total_); });  // bounded by its type
  }
  const core::Lock lock(landing_);
  destination_ = handler.begin(header_);
  return Status();
}

void LaneReceiver::place(const std::byte* data, std::size_t size) {
  if (collects_) {
    std::memcpy(body_.data() + done_, data, size);
    return;
  }
  const core::Lock lock(landing_);
  if (destination_.data == nullptr) return;
  std::memcpy(destination_.data + done_, data, size);
  copies_.add();
}

void LaneReceiver::forget(std::uint64_t key) {
  const core::Lock lock(landing_);
  if (destination_.data != nullptr && destination_.key == key) destination_ = Destination();
}

}  // namespace farwrite::fabric::tcp
