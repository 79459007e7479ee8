// LaneReceiver: cuts one lane's connection into frames, and receives payloads straight into place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/byte_stream.h"
#include "core/counter.h"
#include "core/mutex.h"
#include "fabric/tcp/frame.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::fabric::tcp {

// In place of the key of a grant: of the answers to reads.
inline constexpr std::uint64_t kNoGrant = 0;

// Where a payload goes.
struct Destination {
  std::byte* data = nullptr;               // null: nowhere; the bytes are received and thrown away
  std::uint64_t key = kNoGrant;            // what it lands under
  std::shared_ptr<const void> owner = {};  // keeps `data` valid
};

// What frames mean. Called by the one thread that polls the lane.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  // The header of a kWrite or kReadReply is there, its payload is not. Called with the receiver's
  // lock held, so that a grant cannot go between the look and the landing.
  virtual Destination begin(const FrameHeader& header) = 0;
  // The whole frame is there. `landed`: all of its payload is in the place that begin() gave, and
  // no forget() came between. `body`: the payload of the other types. An error ends the link.
  virtual Status finish(const FrameHeader& header, bool landed, std::vector<std::byte>&& body) = 0;
};

// look() by one thread at a time; forget() and copies() by any.
class LaneReceiver {
 public:
  explicit LaneReceiver(core::ByteStream& stream) : stream_(stream) {}

  struct Look {
    bool more = false;   // stopped for others' sake, or more is at hand than the descriptor shows
    bool ended = false;  // the connection is over, and everything that came is handled
    int error = 0;       // why: an errno, or 0 for a normal end
    Status broken;       // the peer broke the protocol
  };
  // Receives and handles what is there, up to a bound. Never blocks.
  Look look(FrameHandler& handler);

  // When it returns, no byte of the frame under way lands under this key any more.
  void forget(std::uint64_t key);

  // Frames whose payload came with the bytes before it, at least in part, and was copied into
  // place: small ones, and at most kStageBytes of a large one that nothing large was just before.
  std::uint64_t copies() const { return copies_.value(); }

 private:
  static constexpr std::size_t kStageBytes = 8192;

  // Handles what is staged; false when the peer broke the protocol.
  Status handle_staged(FrameHandler& handler);
  Status begin_frame(FrameHandler& handler);
  void place(const std::byte* data, std::size_t size);
  core::ByteStream::Moved receive(std::size_t& offered);

  core::ByteStream& stream_;
  std::array<std::byte, kStageBytes> stage_;
  std::size_t staged_ = 0;    // bytes in stage_
  std::size_t consumed_ = 0;  // of those, handled

  bool in_frame_ = false;
  bool large_ = false;  // the last frame's payload was
  FrameHeader header_;
  bool collects_ = false;    // into body_
  std::uint64_t total_ = 0;  // payload bytes of the frame
  std::uint64_t done_ = 0;   // of those, received
  std::vector<std::byte> body_;
  std::uint64_t frames_ = 0;

  core::Mutex landing_{core::LockRank::kTcp, 1};
  Destination destination_ FW_GUARDED_BY(landing_);  // under landing_
  core::Counter copies_;
};

}  // namespace farwrite::fabric::tcp
