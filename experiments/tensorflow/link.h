// Link: a stream of bytes each way between two processes, through a ring in the receiver's
// registered memory. The sender's processor, or its fabric, writes into the ring, and the
// receiver's copies out of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "farwrite/bytes.h"
#include "farwrite/channel.h"
#include "farwrite/region.h"
#include "farwrite/status.h"
#include "ring_reader.h"
#include "ring_writer.h"

namespace farwrite::experiments {

// One thread reads, and no other. Any thread writes.
class Link : public std::enable_shared_from_this<Link> {
 public:
  // Runs its argument on a thread that may be busy for long.
  using Schedule = std::function<void(std::function<void()>)>;

  // What a notification can give back at once.
  static constexpr std::uint64_t kMostRingBytes = (std::uint64_t{1} << 31) - 1;

  // Both sides call it. Waits for the peer. `ring_bytes`: at least 1, at most kMostRingBytes.
  static Result<std::shared_ptr<Link>> open(Channel channel, std::uint64_t ring_bytes,
                                            Schedule schedule);

  Channel& channel() { return channel_; }
  RingWriter& writer() { return writer_; }

  // The next bytes where they lie in the ring: at least one, for which it waits, and at most
  // `most`. They are there until they are consumed.
  Result<ByteView> peek(std::uint64_t most);
  // At most as many as the last peek() gave. Their room in the ring goes back to the peer.
  void consume(std::uint64_t bytes);
  // Copies the next bytes out; waits for all of them.
  Status read(void* to, std::uint64_t bytes);
  Status skip(std::uint64_t bytes);
  // Appends the next bytes to `to`, which grows as they arrive: `bytes` may be a lie of the peer.
  Status append(std::string* to, std::uint64_t bytes);
  // From any thread: whether a wait for bytes of a silent peer ends the link, after a second.
  void hurry(bool hurried) { hurried_.store(hurried); }

 private:
  Link(Channel channel, MemoryRegion own, RemoteRegion peers, Schedule schedule);
  Status take_notification();

  Channel channel_;
  const Schedule schedule_;
  std::atomic<bool> hurried_{false};
  const MemoryRegion ring_;
  RingReader reader_;
  RingWriter writer_;
};

}  // namespace farwrite::experiments
